"""Files of dumps: those that somebody sent, and those that were collected from hosts."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cluster.core import decoders
from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.hang import HangAnswer, HostReport, Snapshot
from cluster.core.state.files import read_file
from cluster.logs.dumps import read_dump

MOST_FILES = 20_000
FOLDER = "hang"  # of the evidence, in the folder of a run or job
ANSWER = "answer.json"


def read_dumps(paths: Sequence[str | Path]) -> tuple[list[Snapshot], tuple[str, ...]]:
    """Read files and folders; return what the dumps say, and which files are none."""
    snapshots: list[Snapshot] = []
    unread = []
    count = 0
    for path in map(Path, paths):
        files = (f for f in sorted(path.rglob("*")) if f.is_file() and f.name != ANSWER)
        for file in files if path.is_dir() else [path]:
            count += 1
            if count > MOST_FILES:
                raise SpecError(f"There are more than {MOST_FILES} files.")
            try:
                snapshots += read_dump(str(file), read_file(file), file.stat().st_mtime)
            except ClusterError as error:
                unread.append(f"{error.what} {error.means}".strip())
    return snapshots, tuple(unread)


def write_report(folder: Path, report: HostReport) -> None:
    """Keep what a host reported, each dump as a file of its own with its time."""
    folder.mkdir(parents=True, exist_ok=True)
    for dump in report.files:
        path = folder / Path(dump.name).name
        path.write_bytes(dump.content)
        os.utime(path, (dump.at, dump.at))
    if report.snapshots:
        (folder / "processes.json").write_bytes(msgspec.json.encode(report.snapshots))


def newest_hang(folder: Path) -> tuple[str, HangAnswer | None]:
    """Return the answer of the newest look at the ranks of a run, with its time; none without."""
    file = max(folder.glob(f"{FOLDER}/*/{ANSWER}"), default=None)
    return (file.parent.name, decoders.decode(read_file(file), HangAnswer)) if file else ("", None)


def write_answer(folder: Path, answer: HangAnswer) -> None:
    (folder / ANSWER).write_bytes(msgspec.json.encode(answer))
