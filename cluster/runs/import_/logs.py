"""Import of logs: a run folder with their results, and a copy of the logs without secrets."""

import shutil
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import chain, count
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, BinaryIO

from msgspec import structs

from cluster.analysis.limits import hardware
from cluster.analysis.limits.devices import OR
from cluster.analysis.limits.network import FACTORS
from cluster.analysis.topology import nvlinks
from cluster.core.errors import ParseError, SpecError, on_failure
from cluster.core.model.logs import NcclLog, Parsed, Reading, Topology, first_cause
from cluster.core.model.results.limits import Hardware
from cluster.core.model.results.measurements import Measurement
from cluster.core.model.results.records import Condition, Note, Record
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Scalar, Value
from cluster.core.state.files import LARGEST, MIB, open_file
from cluster.core.version import __version__, revision
from cluster.logs.reader import read
from cluster.logs.redaction import redact
from cluster.runs import store
from cluster.runs.run import Run

STDIN = "-"
BETWEEN = ("network", "RDMA", "collective")  # media between hosts
LATENCY = "latency"  # of a message: it depends on whether the ranks share a host
NAME = "imported"
PLAIN = Condition()
PROGRAMS = (b"\x7fELF", b"\x89PNG", b"MZ\x90", b"PK\x03\x04", b"%PDF")  # first bytes
GZIP = b"\x1f\x8b"  # its first bytes
GZIP_BITS = zlib.MAX_WBITS | 16  # 16: expect its header
PORTION = MIB  # bytes read at a time
IN_MEMORY = 64 * MIB  # bytes of a copy; a larger one is a temporary file until it is kept
UNPACKED = 256 * MIB  # bytes that a compressed log may become
PIPE = "Name a file, or - for standard input: COMMAND | cluster judge -"


class Imported(Value, frozen=True, kw_only=True):
    """A run that was kept, with what each log of it held."""

    folder: Path
    readings: tuple[Reading, ...]

    @property
    def results(self) -> tuple[Parsed, ...]:
        return tuple(result for reading in self.readings for result in reading.results)


class LogRun(Value, frozen=True, kw_only=True):
    """Logs that were read, as a run whose folder does not exist yet."""

    run: Run
    readings: tuple[Reading, ...]
    copies: tuple[tuple[str, IO[bytes]], ...]  # of the logs, without secrets: name and content


class LogLocation(Value, frozen=True, kw_only=True):
    """The hosts that wrote the logs, as the user describes them."""

    hardware: Hardware | None = None
    hosts: int = 0  # how many took part; 0 if that is not known
    operation: str = ""  # of collectives, where the log does not say; empty if that is not known


UNKNOWN = LogLocation()


def import_logs(
    files: Sequence[str],
    root: Path,
    *,
    name: str = NAME,
    format_: str = "",
    condition: Condition = PLAIN,
    stdin: BinaryIO | None = None,
    place: LogLocation = UNKNOWN,
) -> Imported:
    """Read logs, and keep them as a run; see `read_logs` and `keep`."""
    with read_logs(
        files, name=name, format_=format_, condition=condition, stdin=stdin, place=place
    ) as logs:
        return Imported(folder=keep(logs, root).folder, readings=logs.readings)


@contextmanager
def read_logs(
    files: Sequence[str],
    *,
    name: str = NAME,
    format_: str = "",
    condition: Condition = PLAIN,
    stdin: BinaryIO | None = None,
    place: LogLocation = UNKNOWN,
) -> Iterator[LogRun]:
    """Make a run of logs during a block; it can be judged before it is kept, or without.

    `-` is standard input; without `format_`, all parsers that recognise the logs read them. A
    SpecError says that a file cannot be read, a ParseError that no line was understood.
    """
    now = time.time()
    with ExitStack() as stack:
        copies = [stack.enter_context(SpooledTemporaryFile(IN_MEMORY)) for _ in files]
        readings = tuple(
            _read_named(file, _copy_chunks(redact(log_chunks(file, stdin)), copy), format_)
            for file, copy in zip(files, copies, strict=True)
        )
        folder = Path(name, store.run_id(now, "log"))
        results = [result for reading in readings for result in reading.results]
        # Ranks and hosts belong to the parameters, and the GPU model if there are several.
        models = {result.devices for result in results if result.devices and result.measurements}
        entries = [
            _with_participants(result, place, result.devices if len(models) > 1 else ())
            for result in results
        ]
        run = Run(
            folder=folder,
            record=_record(readings, folder, now, condition, place),
            measurements=tuple(_distinct(entries)),
            results=tuple(structs.replace(result, measurements=()) for result in results),
        )
        names: list[str] = []  # of the copies: several logs may have the same name
        for file in files:
            stem = "stdin" if file == STDIN else Path(file).name
            names.append(next(p.name for p in raw_places(Path(), stem) if p.name not in names))
        yield LogRun(run=run, readings=readings, copies=tuple(zip(names, copies, strict=True)))


def keep(logs: LogRun, root: Path) -> Run:
    """Write the folder of a run, with copies of its logs, or nothing (ClusterError)."""
    run = logs.run
    folder = store.create(root, run.record.spec.name, "log", run.record.at)
    with on_failure(lambda: shutil.rmtree(folder, ignore_errors=True)):
        record = structs.replace(run.record, id=folder.name, revision=revision())
        for name, copy in logs.copies:
            store.write_raw(folder, name, copy)
        store.append(folder, run.measurements)
        store.write_results(folder, run.results)
        store.write(folder, record)
    return structs.replace(run, folder=folder, record=record)


def _with_participants(result: Parsed, place: LogLocation, models: Sequence[str]) -> Parsed:
    """Add operation, ranks, hosts and GPU to a result's parameters; the log overrides the user."""
    media = {d.id: d.medium for d in result.definitions}
    hosts = result.hosts or place.hosts
    label = place.operation if "collective" in media.values() else ""
    names = FACTORS.keys() & {*result.operation.split(OR)}
    fits = bool(label) and (not names or label in names)
    operation = label if fits else result.operation
    participants: dict[str, Scalar] = {"operation": operation, "ranks": result.ranks}
    participants = {key: value for key, value in participants.items() if value}
    if len(models) == 1:
        participants["gpu"] = models[0]
    point: dict[str, Scalar] = {"hosts": hosts} if hosts else {}
    if not participants and not point:
        return result
    by_point: dict[tuple[int, bool], dict[str, Scalar]] = {}  # metrics of a point share its params

    def with_params(m: Measurement) -> Measurement:
        medium = media[m.definition]
        is_inside = medium == "TCP" and result.hosts == 1  # otherwise, it is between two hosts
        between = medium in BETWEEN or m.metric == LATENCY or is_inside
        key = id(m.params), between
        if key not in by_point:
            by_point[key] = {**m.params, **participants, **(point if between else {})}
        return structs.replace(m, params=by_point[key])

    return structs.replace(result, measurements=tuple(map(with_params, result.measurements)))


def read_log(file: str, *, format_: str = "", stdin: BinaryIO | None = None) -> Reading:
    """Read a log without keeping it; errors and arguments are those of `read_logs`."""
    return _read_named(file, log_chunks(file, stdin), format_)


def _read_named(file: str, chunks: Iterable[bytes], format_: str) -> Reading:
    """Read a log, and name its file in errors."""
    try:
        return read(chunks, format_)
    except ParseError as error:
        raise ParseError(f"{file}: {error.what}", line=error.line, remedy=error.remedy) from error


def raw_places(raw: Path, stem: str) -> Iterator[Path]:
    return chain([raw / stem], (raw / f"{stem}.{number}" for number in count(2)))


def log_chunks(file: str, stdin: BinaryIO | None) -> Iterator[bytes]:
    """Yield the bytes of a log in portions, decompressed if it is gzip; `-` is `stdin`.

    A SpecError says that it cannot be read, is damaged or no file, or has a line without an end.
    """
    portions = _unpack(file, _portions(file, stdin))
    length = 0  # of the line that is not yet complete
    for chunk in portions:
        rest = len(chunk) - chunk.rfind(b"\n") - 1
        length = rest if rest < len(chunk) else length + rest
        if length > LARGEST:
            raise SpecError(
                f"{file} has a line of more than {LARGEST // MIB} MiB, so it is no log.",
                remedy="Name the log itself, not a binary or a sparse file.",
            )
        yield chunk


def _unpack(file: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    first = next(chunks, b"")
    if first.startswith(PROGRAMS):
        raise SpecError(f"{file} is a binary file, and a log is text.", remedy=PIPE)
    if not first.startswith(GZIP):
        yield first
        yield from chunks
        return
    unzip, size = zlib.decompressobj(wbits=GZIP_BITS), 0
    for chunk in chain((first,), chunks):
        data, portion = chunk, b""
        while data or len(portion) == PORTION:
            try:
                portion = unzip.decompress(data, PORTION)
            except zlib.error as error:
                raise SpecError(
                    f"{file} begins as gzip does, and is damaged: {error}.",
                    remedy="Copy it again, or read what is left: gzip -dc FILE | cluster judge -",
                ) from error
            size += len(portion)
            if size > UNPACKED:
                raise SpecError(
                    f"{file} unpacks to more than {UNPACKED // MIB} MiB.",
                    remedy="If it is a log all the same: gzip -dc FILE | cluster judge -",
                )
            yield portion
            data = unzip.unconsumed_tail
            if unzip.eof:  # another file may follow, as with `cat a.gz b.gz`
                data, portion = unzip.unused_data, b""
                unzip = zlib.decompressobj(wbits=GZIP_BITS)


def _portions(file: str, stdin: BinaryIO | None) -> Iterator[bytes]:
    if file != STDIN and Path(file).is_dir():
        folder = Path(file)
        raise SpecError(
            f"{file} is a folder, and a log is a file.",
            remedy=f"It is a run already: cluster show {file}"
            if store.is_run(folder)
            else _files_in(folder),
        )
    with nullcontext(stdin or sys.stdin.buffer) if file == STDIN else open_file(file, PIPE) as log:
        try:
            while chunk := log.read(PORTION):
                yield chunk
        except OSError as error:
            raise SpecError(f"{file} cannot be read: {error.strerror}.") from error


def _files_in(folder: Path) -> str:
    """Say how to name the files of a folder: by a pattern that the shell expands."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if not files:
        return "There are no files in it."
    first = files[0].relative_to(folder)
    levels = "/".join("*" for _ in first.parts[:-1])
    ending = first.suffix if all(path.suffix == first.suffix for path in files) else ""
    return f"Name the {len(files)} file(s) in it: {folder / levels}/*{ending}"


def _copy_chunks(chunks: Iterable[bytes], target: IO[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        target.write(chunk)
        yield chunk


def _distinct(results: Sequence[Parsed]) -> Iterator[Measurement]:
    """Number repeated measurements of the same thing, so that each is a series of its own."""
    if len(results) == 1:  # within one result, all series differ
        yield from results[0].measurements
        return
    pairs = [(m.key, m) for result in results for m in result.measurements]
    repeats = Counter(key for key, _ in pairs)
    parts: Counter[object] = Counter()
    for key, m in pairs:
        parts[key] += 1
        part = {"part": parts[key]} if repeats[key] > 1 else {}
        yield structs.replace(m, params={**m.params, **part}) if part else m


def _record(
    readings: Sequence[Reading], folder: Path, now: float, condition: Condition, place: LogLocation
) -> Record:
    results = list(chain.from_iterable(reading.results for reading in readings))
    models = [model for result in results for model in result.devices]
    board = hardware.with_logged_gpus(place.hardware, models)
    other = hardware.contradicting_gpu(place.hardware, models)
    gpu = place.hardware.gpu if place.hardware else ""
    notes = [
        structs.replace(note, title=result.title) for result in results for note in result.notes
    ]
    for reading in readings:
        if reading.unread:
            first = reading.examples[0]
            values = reading.unread, reading.lines, first.line, first.text[:60]
            notes.append(Note("lines_not_understood", values))
    if other:
        notes.append(Note("other_gpu", (other, gpu)))
    cause = first_cause(results)
    failures = [f"{result.title}: {text}" for result in results for text in result.failures]
    if cause is not None and not any(cause.text in text for text in failures):
        failures = [f"line {cause.line}: {cause.text}", *failures]
    formats = dict.fromkeys(result.format for result in results)
    definitions = {d.id: d for result in results for d in result.definitions}
    return Record(
        id=folder.name,
        benchmark="+".join(formats),
        status="failed" if failures else "done",
        at=now,
        spec=ClusterSpec(name=folder.parent.name, provider=NAME, hosts=1),
        argv=tuple(sys.argv),
        definitions=definitions,
        notes=tuple(dict.fromkeys(notes)),
        reason="; ".join(failures[:3]),
        software=__version__,
        condition=condition.name,
        description=condition.description,
        expected=condition.expected,
        hardware=_with_connections(board, [result.detail for result in results]),
    )


def _with_connections(board: Hardware | None, details: Sequence[object]) -> Hardware | None:
    """Add the NVLinks of a topology matrix, and the fabric that NCCL's log names."""
    matrices = [detail for detail in details if isinstance(detail, Topology)]
    gpus = (device for matrix in matrices for device in matrix.devices if device.is_gpu)
    links = max((nvlinks(path) for gpu in gpus for path in gpu.paths), default=0)
    logs = (detail for detail in details if isinstance(detail, NcclLog))
    board = hardware.with_links(board, links)
    return hardware.with_fabric(board, fabric=any(log.fabric for log in logs))
