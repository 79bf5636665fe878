"""A job's own folder in shared memory, on each of its hosts, and what is left of jobs that ended.

MPI leaves its segments and its session behind when mpirun and the ranks are killed. Whoever comes
next removes them, but only what is proved to be ours: a folder of this user, with a file in it that
names the job's folder, of which the scratch folder's own name is the hash.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import time
from pathlib import Path

from cluster.agent.kernel_files import read_text

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - its names are checked, see `_is_ours`
PREFIX = "cluster-"
OWNER = "job"  # the file in it that names the job's folder
YOUNG = 600.0  # seconds in which a job may not have begun on this host yet


def scratch_of(folder: str) -> str:
    """Name the folder in shared memory that is a job's own, on every host.

    Args:
        folder: of the job, on the host.

    Returns:
        Its path; it needs no quotes.

    """
    digest = hashlib.sha256(folder.encode(errors="surrogateescape")).hexdigest()
    return f"{SHARED_MEMORY}/{PREFIX}{digest[:16]}"


def orphaned(root: Path = SHARED_MEMORY) -> tuple[Path, ...]:
    """Find the folders in shared memory that are ours, and whose jobs are over.

    Args:
        root: where the shared memory is, for tests.

    Returns:
        Their paths.

    """
    ours = [path for path in sorted(root.glob(f"{PREFIX}*")) if _is_ours(path)]
    return tuple(path for path in ours if _is_over(path))


def job_of(path: Path) -> Path:
    """Give the folder of the job that such a folder belongs to.

    Args:
        path: of the folder in shared memory.

    Returns:
        The job's folder on this host, which may be gone.

    """
    return Path(read_text(path / OWNER))


def remove(path: Path) -> bool:
    """Remove such a folder, unless it is not ours, or its job runs.

    Args:
        path: of the folder.

    Returns:
        Whether it is gone.

    """
    if _is_ours(path) and _is_over(path):
        shutil.rmtree(path, ignore_errors=True)
    return not path.exists()


def sweep() -> None:
    """Remove all such folders."""
    for path in orphaned():
        remove(path)


def _is_ours(path: Path) -> bool:
    try:
        info = path.lstat()
    except OSError:
        return False
    mine = stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid()
    return mine and path.name == Path(scratch_of(str(job_of(path)))).name


def _is_over(path: Path) -> bool:
    """Tell whether a job has ended; only the first of its hosts has a file that helps."""
    folder = job_of(path)
    if _is_used(path, folder):
        return False
    if not folder.exists() or (folder / "pid").exists():
        return True
    return time.time() - path.stat().st_mtime > YOUNG


def _is_used(path: Path, folder: Path) -> bool:
    """Tell whether a process works in a job's folder, or knows the one in shared memory."""
    return any(_knows(process, path, folder) for process in Path("/proc").glob("[0-9]*"))


def _knows(process: Path, path: Path, folder: Path) -> bool:
    try:
        if (process / "cwd").readlink().is_relative_to(folder):
            return True
        return os.fsencode(path) in (process / "environ").read_bytes()
    except OSError:  # it ended meanwhile, or is somebody else's
        return False
