"""The run folder: `run.json`, `measurements.jsonl`, `raw/`; values are only ever appended."""

import errno
import glob
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import IO

import msgspec
from msgspec.structs import replace

from cluster.core import decoders
from cluster.core.errors import ClusterError, ParseError, SpecError, on_failure
from cluster.core.model.logs import Parsed
from cluster.core.model.network.fleet import FleetVerdict, Reason
from cluster.core.model.network.placement import Placement
from cluster.core.model.results.measurements import Measurement
from cluster.core.model.results.records import Record
from cluster.core.model.value import Value
from cluster.core.state import files
from cluster.core.state.files import make_private, write_file
from cluster.runs import run as of_runs
from cluster.runs import shared_file
from cluster.runs.run import PAIRS, RAW, WITHIN, Run

RECORD, MEASUREMENTS = of_runs.RECORD, of_runs.MEASUREMENTS
VERSION = 1  # of the format of run.json
RESULTS = "results.jsonl"  # of imported logs, without their measurements
DEFAULT_ROOT = "runs"
DEEPEST = 20  # levels of a benchmark's parameters
VERDICT = "verdict.json"  # of a check of a fleet
PLACEMENT = "placement.json"  # which hosts are near one another


def root(choice: str | Path | None = None) -> Path:
    """Return the absolute folder of all runs: the user's choice, `CLUSTER_RUNS`, or `runs`."""
    return Path(choice or os.environ.get("CLUSTER_RUNS") or DEFAULT_ROOT).absolute()


def create(root: Path, name: str, benchmark: str, timestamp: float) -> Path:
    """Make a new folder: `WHERE/NAME/YYYYMMDDTHHMMSSZ-BENCHMARK[.N]` (ClusterError)."""
    stem, number = run_id(timestamp, benchmark), 0
    while True:
        folder = root / name / (f"{stem}.{number}" if number else stem)
        with _writing(root):
            make_private(folder.parent)
            _check_writer(folder.parent)
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                number += 1
                continue
        return folder


def run_id(timestamp: float, benchmark: str) -> str:
    """Return the name of a run's folder, unless another run has it."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(timestamp))}-{benchmark}"


def make_root(root: Path) -> None:
    """Make the folder of all runs, before anything is measured (ClusterError)."""
    with _writing(root):
        make_private(root)
        _check_writer(root)
        if not os.access(root, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _check_writer(folder: Path) -> None:
    """Refuse a folder in which another user could replace a file by a link to one of ours.

    Allowed owners are this user, root (shared file systems), and with sudo the calling user.
    """
    owner, users = folder.stat().st_uid, {0, os.geteuid()}
    if os.geteuid() == 0:
        users.add(int(os.environ.get("SUDO_UID") or 0))
    if owner not in users:
        raise ClusterError(
            f"The run folder {folder} belongs to another user (uid {owner}).",
            means="Its owner could redirect what is written there. To read its runs is no danger.",
            remedy="Choose a folder of your own: --runs DIR",
        )


def write(folder: Path, record: Record) -> None:
    """Replace the record of a run, atomically (ClusterError)."""
    with _writing(folder):
        files.write_whole(folder / RECORD, decoders.encode_indented(record))


def append(folder: Path, measurements: Iterable[Measurement]) -> None:
    """Add measurements to a run, after removing a last line that a crash has truncated."""
    if text := _lines(measurements):
        with _writing(folder):
            files.append(folder / MEASUREMENTS, text)


def _lines(values: Iterable[Measurement | Parsed]) -> bytes:
    return b"".join(msgspec.json.encode(value) + b"\n" for value in values)


def write_raw(folder: Path, name: str, text: str | IO[bytes]) -> None:
    """Write a text, or the content of a file, into `raw/`, beside the files of the job."""
    path = folder / RAW / name
    with _writing(path):
        path.parent.mkdir(exist_ok=True)
        if isinstance(text, str):
            path.write_text(text)
            return
        text.seek(0)
        with path.open("wb") as file:
            shutil.copyfileobj(text, file)


def write_results(folder: Path, results: Iterable[Parsed]) -> None:
    """Write the results of imported logs, without measurements, which have their own file."""
    rest = _lines(replace(result, measurements=()) for result in results)
    with _writing(folder):
        (folder / RESULTS).write_bytes(rest)


def is_run(folder: Path) -> bool:
    return (folder / RECORD).is_file()


def record(folder: Path) -> Record:
    """Read the record of a run (SpecError: none; ParseError: damaged, or of another version)."""
    try:
        text = (folder / RECORD).read_bytes()
    except OSError as error:
        raise SpecError(
            f"{folder} is not a run: its {RECORD} cannot be read ({error.strerror}).",
            remedy="List the runs: cluster runs",
        ) from error
    try:
        result = decoders.decode(text, Record)
        _check_depth(msgspec.json.decode(result.params))
    except (*decoders.UNREADABLE, SpecError) as error:
        raise ParseError(
            f"{folder / RECORD} cannot be read: {error!s:.300}",
            remedy="It may come from another version of cluster.",
        ) from error
    if result.version != VERSION:
        raise ParseError(
            f"{folder / RECORD} has version {result.version} of the format; this is {VERSION}.",
            remedy="Read it with the version of cluster that wrote it.",
        )
    return result


def _check_depth(params: object) -> None:
    """Refuse parameters in parameters in parameters, which no reader could follow."""
    level = [params]
    for _ in range(DEEPEST):
        lists = [item for item in level if isinstance(item, dict | list)]
        level = [
            value for item in lists for value in (item.values() if isinstance(item, dict) else item)
        ]
    if level:
        raise SpecError(f"its parameters are nested more than {DEEPEST} deep")


def read(folder: Path) -> Run:
    """Read a run with all its values; a truncated last line is left out and named in `warnings`.

    A folder without a run raises a SpecError; an unreadable record or line, a ParseError.
    """
    run_record = record(folder)
    try:
        text = (folder / MEASUREMENTS).read_bytes()
    except FileNotFoundError:
        text = b""
    warnings: tuple[str, ...] = ()
    if text and not text.endswith(b"\n"):
        warnings = (f"The last line of {MEASUREMENTS} was cut off, and is left out.",)
    lines = enumerate(files.complete_lines(text), 1)
    decode = decoders.decoder(Measurement).decode
    values = tuple(_measurement(decode, folder, number, line) for number, line in lines)
    return Run(
        folder=folder,
        record=run_record,
        measurements=values,
        warnings=warnings,
        results=tuple(_results(folder)),
        fleet=verdict(folder) or _without_verdict(folder, run_record),
    )


def _without_verdict(folder: Path, record: Record) -> FleetVerdict | None:
    """Return the verdict on a check that nobody has judged: its values alone assure of nothing."""
    if record.benchmark not in (PAIRS, WITHIN):
        return None
    name = record.spec.name
    step = f"cluster check --from {folder}"
    if record.status in ("planned", "running"):
        step = f"cluster wait {name}; cluster fetch {name}"
    answer = f"UNDECIDED: the check is {record.status} and has no verdict yet. Type: {step}"
    reason = Reason(code="not_judged")
    return FleetVerdict(
        verdict="UNDECIDED", rounds=0, answer=answer, run=str(folder), reason=reason
    )


def _results(folder: Path) -> Iterator[Parsed]:
    try:
        text = (folder / RESULTS).read_bytes()
    except FileNotFoundError:
        return
    for number, line in enumerate(files.complete_lines(text), 1):
        try:
            yield decoders.decode(line, Parsed)
        except decoders.UNREADABLE as error:
            raise ParseError(
                f"Line {number} of {folder / RESULTS} is no result: {error!s:.300}"
            ) from error


def _measurement(
    decode: Callable[[bytes], Measurement], folder: Path, number: int, line: bytes
) -> Measurement:
    try:
        return decode(line)
    except decoders.UNREADABLE as error:
        raise ParseError(
            f"Line {number} of {folder / MEASUREMENTS} is not a measurement: {error!s:.300}",
            line=line.decode(errors="replace"),
        ) from error


def folders(root: Path) -> list[Path]:
    """List the runs under a folder, the oldest first."""
    runs = [path.parent for path in root.glob(f"*/*/{RECORD}")]
    return sorted(runs, key=_age)


def run_ids(root: Path, name: str) -> frozenset[str]:
    """Return the ids of the runs of a cluster."""
    return frozenset(path.parent.name for path in (root / name).glob(f"*/{RECORD}"))


def _age(folder: Path) -> tuple[str, int, str]:
    """Return the key that sorts runs by age; within the same second, .10 comes after .9."""
    stem, _, number = folder.name.partition(".")
    return stem, int(number) if number.isdigit() else 0, folder.parent.name


def find(root: Path, name: str) -> Path:
    """Find a run by folder, id, name of its cluster, shared file or `latest` (SpecError: none)."""
    if is_run(Path(name)):
        return Path(name).absolute()
    if shared_file.is_shared(Path(name)):
        return shared_file.unpack(Path(name))
    for folder in reversed(folders(root)):
        names = (folder.name, folder.parent.name, f"{folder.parent.name}/{folder.name}")
        if name == "latest" or name in names:
            return folder
    if not root.is_dir():
        raise SpecError(
            f"There is no run {name!r}: the folder {root} does not exist.",
            means="Runs are in --runs, else in CLUSTER_RUNS, else in 'runs' in the current folder.",
            remedy="Name another folder, or measure first: cluster bench p2p --run-local",
        )
    raise SpecError(
        f"There is no run {name!r} under {root}.",
        means="A run is named by its folder, its id, its cluster (the newest run) or 'latest'.",
        remedy="List them: cluster runs",
    )


def find_launches(root: Path, name: str) -> list[Path]:
    """Find a run as `find`, or all launches of the newest command, the oldest first."""
    newest = find(root, name)
    if name not in ("latest", newest.parent.name):
        return [newest]
    launch = record(newest).launch_of
    if not launch:
        return [newest]
    folders_ = sorted((path.parent for path in newest.parent.glob(f"*/{RECORD}")), key=_age)
    return [folder for folder in folders_ if _launch_of(folder) == launch]


def _launch_of(folder: Path) -> str:
    with suppress(ClusterError):  # a damaged run is part of nothing
        return record(folder).launch_of
    return ""


def all_of(root: Path, name: str) -> list[Path]:
    """Find all runs of a cluster, the oldest first, or what `find_launches` returns."""
    return [f for f in folders(root) if f.parent.name == name] or find_launches(root, name)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ClusterError(
            f"The run folder cannot be written: {path}: {error.strerror}.",
            remedy="Choose another place: --runs DIR",
        ) from error


def write_verdict(folder: Path, verdict: FleetVerdict) -> None:
    _write(folder / VERDICT, verdict)


def verdict(folder: Path) -> FleetVerdict | None:
    """Read the verdict of a check; None if the run is no check, or the file is damaged."""
    return decoders.decode_file(folder / VERDICT, FleetVerdict)


def write_placement(folder: Path, placement: Placement) -> None:
    _write(folder / PLACEMENT, placement)


def placement(folder: Path) -> Placement | None:
    """Read which hosts of a run are near one another; None if not judged, or damaged."""
    return decoders.decode_file(folder / PLACEMENT, Placement)


def _write(path: Path, value: Value) -> None:
    write_file(path, decoders.encode_indented(value))


def import_run(folder: Path, root: Path, name: str = "") -> Path:
    """Copy a run's folder, for the cluster `name` if given (SpecError; ParseError: damaged)."""
    record = read(folder).record
    spec = replace(record.spec, name=name or record.spec.name)
    is_name = PurePath(record.id).name == record.id  # it may come from anywhere
    stem = record.id if is_name else folder.resolve().name
    for candidate in sorted((root / spec.name).glob(f"{glob.escape(stem)}*")):
        if _is_copy(candidate, folder, record):
            return candidate
    copy = create(root, spec.name, stem.partition("-")[2] or record.benchmark, record.at)
    with on_failure(lambda: shutil.rmtree(copy, ignore_errors=True)):
        try:
            shutil.copytree(folder, copy, symlinks=True, ignore=_strange, dirs_exist_ok=True)
        except (OSError, shutil.Error) as error:
            raise ClusterError(
                f"{folder} cannot be copied to {copy}: {error}",
                remedy="Is there room, and may you read all of it? Nothing was kept.",
            ) from error
        if copy.name != record.id:  # another run has that name here
            write(copy, replace(record, id=copy.name))
    return copy


def _is_copy(candidate: Path, folder: Path, original: Record) -> bool:
    """Tell whether a folder holds the same run; its id may have got a number here."""
    if not is_run(candidate) or replace(record(candidate), id=original.id) != original:
        return False
    values, copies = (read(place).measurements for place in (candidate, folder))
    return list(values) == list(copies)


def _strange(folder: str, names: list[str]) -> list[str]:
    """Name what is no file and no folder; a link may lead anywhere."""
    paths = [Path(folder) / name for name in names]
    return [p.name for p in paths if p.is_symlink() or not (p.is_file() or p.is_dir())]
