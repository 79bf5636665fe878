"""A working folder on its way to the hosts: what of it is copied, and how much at most."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.core.errors import SpecError
from cluster.core.model.value import Value
from cluster.core.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

MOST_BYTES = 32_000_000  # it goes to every host, and comes back with the results of each
MOST_FILES = 1_000
CACHES = ("__pycache__", "node_modules")
ENVIRONMENT = "pyvenv.cfg"  # in the folder of a Python environment
OF_A_JOB = ("job.sh", "stdout", "stderr", "status", "reason", "pid", "scratch")  # its own files


class WorkingFolder(Value, frozen=True, kw_only=True):
    """The part of a folder that is copied.

    Hidden files, caches, Python environments and the folder of all runs are left out.

    Args:
        path: of the folder, absolute.
        files: that are copied, relative to it.
        bytes: of all of them.

    """

    path: Path
    files: tuple[Path, ...]
    bytes: int

    def __str__(self) -> str:
        """Say what is copied."""
        return f"{self.path} ({len(self.files)} files, {format_bytes(self.bytes)})"


def find_files(path: str | Path, runs: Path) -> WorkingFolder:
    """Find what of a folder is copied.

    Args:
        path: of the folder.
        runs: the folder of all runs.

    Returns:
        What is copied.

    Raises:
        SpecError: it is no folder, or has too much.

    """
    top = Path(path).resolve()
    if not top.is_dir():
        raise SpecError(f"{path} is no folder here.", remedy="Name one: --workdir FOLDER")
    files, size = [], 0
    for file in _files(top, runs.resolve()):
        files.append(file.relative_to(top))
        size += file.stat().st_size
        if size > MOST_BYTES or len(files) > MOST_FILES:
            raise SpecError(
                f"The working folder {top} is too large to be copied to the hosts.",
                means=f"At most {MOST_FILES:,} files of {format_bytes(MOST_BYTES)} together are "
                "copied. Nothing was started.",
                remedy="Name a smaller folder: --workdir FOLDER; or copy what the program needs "
                "yourself (cluster put NAME FILE PATH), and name it by absolute paths.",
            )
    return WorkingFolder(path=top, files=tuple(files), bytes=size)


def _files(folder: Path, runs: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in CACHES or path == runs:
            continue
        if path.is_file():
            yield path
        elif path.is_dir() and not path.is_symlink() and not (path / ENVIRONMENT).exists():
            yield from _files(path, runs)


def check_names(folder: WorkingFolder, others: Collection[str]) -> None:
    """Refuse a folder with files that would replace those of the job, or be replaced by them.

    Args:
        folder: the ranks run in a copy of it.
        others: names of files that this job has beside its own.

    Raises:
        SpecError: it has such a file.

    """
    names = {*others, *OF_A_JOB}
    for file in folder.files:
        if str(file) in names or file.match("measurements.*.jsonl"):
            raise SpecError(
                f"{folder.path / file} has the name of a file of the job itself.",
                means="The ranks run beside both. Nothing was started.",
                remedy="Rename it, or name another folder: --workdir FOLDER",
            )


@contextmanager
def copied(folder: WorkingFolder | None) -> Iterator[Path | None]:
    """Copy it, with links replaced by what they lead to.

    Args:
        folder: to copy; none if there is nothing to copy.

    Yields:
        A folder that is removed afterwards; none if there is nothing to copy.

    """
    if folder is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="cluster-") as made:
        for file in folder.files:
            target = Path(made) / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder.path / file, target)
        yield Path(made)
