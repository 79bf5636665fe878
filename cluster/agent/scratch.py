"""What a job leaves on its hosts: a folder in shared memory, and a copy of the user's folder.

MPI leaves its segments and its session behind when mpirun and the ranks are killed. A later job
removes them, but only a folder that is provably cluster's: it belongs to this user, a file in it
names the job's folder, and its own name is the hash of that path.
"""

import hashlib
import json
import os
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path

from cluster.agent.hardware import read_text
from cluster.agent.protocol import COPIED, WORKDIR

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - its names are checked, see `_is_of_cluster`
PREFIX = "cluster-"
OWNER = "job"  # the file in it that names the job's folder
START_LIMIT = 600.0  # seconds within which a job begins on each of its hosts
CACHES = ("__pycache__", "node_modules")  # folders that are neither copied nor results


def scratch_of(folder: str) -> str:
    """Name the folder in shared memory that is a job's own, on every host."""
    digest = hashlib.sha256(folder.encode(errors="surrogateescape")).hexdigest()
    return f"{SHARED_MEMORY}/{PREFIX}{digest[:16]}"


def find_orphans(root: Path = SHARED_MEMORY) -> tuple[Path, ...]:
    """Find cluster's folders in shared memory whose jobs are over."""
    folders = [path for path in sorted(root.glob(f"{PREFIX}*")) if _is_of_cluster(path)]
    return tuple(path for path in folders if _is_over(path))


def job_of(path: Path) -> Path:
    return Path(read_text(path / OWNER))


def remove(path: Path) -> bool:
    """Remove a scratch folder, unless it is not cluster's, or its job runs."""
    if _is_of_cluster(path) and _is_over(path):
        shutil.rmtree(path, ignore_errors=True)
    return not path.exists()


def sweep() -> None:
    for path in find_orphans():
        remove(path)


def _is_of_cluster(path: Path) -> bool:
    try:
        info = path.lstat()
    except OSError:
        return False
    is_own = stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid()
    return is_own and path.name == Path(scratch_of(str(job_of(path)))).name


def _is_over(path: Path) -> bool:
    """Tell whether a job has ended; only its first host has a `pid` file."""
    folder = job_of(path)
    if any(_uses(process, path, folder) for process in Path("/proc").glob("[0-9]*")):
        return False
    if not folder.exists() or (folder / "pid").exists():
        return True
    return time.time() - path.stat().st_mtime > START_LIMIT


def _uses(process: Path, path: Path, folder: Path) -> bool:
    """Tell whether a process works in a job's folder, or has the scratch folder in a variable."""
    try:
        if (process / "cwd").readlink().is_relative_to(folder):
            return True
        return os.fsencode(path) in (process / "environ").read_bytes()
    except OSError:  # it ended meanwhile, or is somebody else's
        return False


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_unchanged(folder: Path) -> None:
    """Remove caches and files that did not change, so that only results are left to download.

    Files are compared by their content: the clock of a new machine may be set back while it runs.
    """
    copy, manifest = folder / WORKDIR, folder / COPIED
    try:
        digests = json.loads(manifest.read_bytes())
    except FileNotFoundError:
        return
    for name, digest in digests.items():
        path = copy / name
        with suppress(FileNotFoundError):  # removed by the program, or before under another name
            if path.is_file() and not path.is_symlink() and sha256(path) == digest:
                path.unlink()
    for parent, folders, _ in os.walk(copy):
        for name in {*folders} & {*CACHES}:
            shutil.rmtree(Path(parent) / name, ignore_errors=True)
    for parent, _, _ in os.walk(copy, topdown=False):
        with suppress(OSError):  # it has results
            Path(parent).rmdir()
    manifest.unlink(missing_ok=True)  # it names the user's files, and is not a result
