"""The working folder of a job: its files that are copied to the hosts, and their limits."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.agent.protocol import COPIED, WORKDIR
from cluster.agent.scratch import CACHES, sha256
from cluster.core.errors import SpecError
from cluster.core.model.value import Value
from cluster.core.text.units import format_bytes

MOST_BYTES = 32_000_000  # of all files; each host gets a copy
MOST_FILES = 1_000
ENVIRONMENT = "pyvenv.cfg"  # file that marks the folder of a Python environment
LEFT_OUT = (
    f"Hidden files and folders, linked folders, {' and '.join(CACHES)}, Python environments "
    "and the folder of all runs"
)


class WorkingFolder(Value, frozen=True, kw_only=True):
    """The part of a folder that is copied.

    Hidden files and folders, linked folders, caches, Python environments and the folder of all runs
    are left out; a linked file is copied. More than 1,000 files or 32 MB are refused.
    """

    path: Path  # of the folder, absolute
    files: tuple[Path, ...]  # that are copied, as paths relative to it
    bytes: int

    def __str__(self) -> str:
        return f"{self.path} ({len(self.files)} files, {format_bytes(self.bytes)})"


def find_files(path: str | Path, runs: Path) -> WorkingFolder:
    """Find the files of a folder that are copied (SpecError: for example, too many)."""
    top = Path(path).resolve()
    if not str(path) or not top.is_dir():
        raise SpecError(
            f"{path or repr(path)} is no folder here.",
            remedy="Name one: --workdir FOLDER; or copy nothing: --workdir none",
        )
    with _readable(top):
        files, size = [], 0
        for file in _files(top, runs.resolve()):
            files.append(file.relative_to(top))
            with file.open("rb") as stream:
                size += os.fstat(stream.fileno()).st_size
            if size > MOST_BYTES or len(files) > MOST_FILES:
                raise SpecError(
                    f"The working folder {top} is too large to be copied to the hosts.",
                    means=f"At most {MOST_FILES:,} files of {format_bytes(MOST_BYTES)} together "
                    "are copied. Nothing was started.",
                    remedy="Name a smaller folder: --workdir FOLDER; or copy nothing: --workdir "
                    "none. What the program needs goes to the hosts by cluster put NAME FILE "
                    "PATH, and into the command as an absolute path.",
                )
        return WorkingFolder(path=top, files=tuple(files), bytes=size)


def _files(folder: Path, runs: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or stays_here(path, runs):
            continue
        if path.is_file():
            yield path
        elif path.is_dir() and not path.is_symlink():
            yield from _files(path, runs)


def stays_here(path: Path, runs: Path) -> bool:
    """Return whether a path is a cache, a Python environment or the folder of all runs."""
    return path.name in CACHES or path == runs or (path / ENVIRONMENT).exists()


@contextmanager
def _readable(top: Path) -> Iterator[None]:
    """Turn the error of reading a file into ours."""
    try:
        yield
    except OSError as error:
        raise SpecError(
            f"{error.filename or top} could not be copied: {error.strerror}.",
            means="The ranks run in a copy of all that is in the working folder.",
            remedy="Change its mode or move it; or name another folder: --workdir FOLDER",
        ) from error


@contextmanager
def temporary_copy(folder: WorkingFolder | None) -> Iterator[Path | None]:
    """Copy a working folder, with files in place of links to them, while a block runs.

    The temporary folder has the copy and a list of its files and their SHA-256, which later shows
    the files that the job did not change. None if there is nothing to copy (SpecError: unreadable).
    """
    if folder is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="cluster-") as temporary:
        to = Path(temporary)
        with _readable(folder.path):
            copy, digests = to / WORKDIR, {}
            copy.mkdir()
            for file in folder.files:
                target = copy / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(folder.path / file, target)
                digests[str(file)] = sha256(target)
            (to / COPIED).write_text(json.dumps(digests))  # ASCII, whatever the names are
        yield to
