"""Files of dumps: those that somebody sent, and those that were collected from hosts."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from cluster.core import decoders
from cluster.core.errors import ClusterError, SpecError
from cluster.core.files import read_file
from cluster.core.model.hang import HangAnswer, HostReport, Snapshot
from cluster.logs.dumps import read_dump

MOST_FILES = 20_000
FOLDER = "hang"  # of the evidence, in the folder of a run or job
ANSWER = "answer.json"


def read_dumps(named: Sequence[str | Path]) -> tuple[list[Snapshot], tuple[str, ...]]:
    """Read files and folders; return what the dumps say, and which files are none."""
    snapshots: list[Snapshot] = []
    unread = []
    for path in _paths(named):
        try:
            snapshots += read_dump(str(path), read_file(path), path.stat().st_mtime)
        except ClusterError as error:
            unread.append(f"{error.what} {error.means}".strip())
    return snapshots, tuple(unread)


def _paths(named: Sequence[str | Path]) -> Iterator[Path]:
    count = 0
    for path in map(Path, named):
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if path.is_dir() and (not file.is_file() or file.name == ANSWER):
                continue
            count += 1
            if count > MOST_FILES:
                raise SpecError(f"There are more than {MOST_FILES} files.")
            yield file


def write_report(folder: Path, report: HostReport) -> None:
    """Keep what a host reported, each dump as a file of its own with its time."""
    folder.mkdir(parents=True, exist_ok=True)
    for dump in report.files:
        path = folder / Path(dump.name).name
        path.write_bytes(dump.content)
        os.utime(path, (dump.at, dump.at))
    if report.snapshots:
        (folder / "processes.json").write_bytes(msgspec.json.encode(report.snapshots))


def kept_answers(folder: Path) -> dict[str, HangAnswer]:
    """Return the answers that were kept in the folder of a run by their times, the oldest first."""
    files = sorted(folder.glob(f"{FOLDER}/*/{ANSWER}"))
    return {file.parent.name: decoders.decode(read_file(file), HangAnswer) for file in files}


def write_answer(folder: Path, answer: HangAnswer) -> None:
    (folder / ANSWER).write_bytes(msgspec.json.encode(answer))
