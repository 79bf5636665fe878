"""Ends what runs of the suite left behind that were killed: `scripts/test --clean`.

Where namespaces are permitted, the processes of a worker end with it (`worker.sh`), and only its
folder of temporary files is found here. Elsewhere they stay, and carry the mark of their run.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

MARK = "CLUSTER_TESTS"  # the process that leads a run, in the environment of all of its processes
PREFIX = "cluster-tests-"  # of folders: one for each worker's temporary files, one for environments
VISIBLE = Path("/var/cache")  # hosts of the lab see it, and no temporary files of this machine
RUN = "run"  # the file in such a folder that holds the mark
WITHIN = 10.0  # seconds for killed processes to leave


def mark() -> str:
    """Return the mark of the run that this process belongs to: its own, if nobody else leads it."""
    return os.environ.get(MARK) or f"{_namespace()}:{os.getpid()}:{start_time(os.getpid())}"


def processes() -> list[int]:
    """List the processes of this user whose run ended without them."""
    pids = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (path / "environ").read_bytes().decode(errors="replace").split("\0")
            runs = [word.partition("=")[2] for word in words if word.startswith(f"{MARK}=")]
            if path.stat().st_uid == os.geteuid() and runs and _has_ended(runs[0]):
                pids.append(int(path.name))
    return pids


def folders() -> list[Path]:
    """List the folders of runs that ended without removing them."""
    paths = []
    places = (Path(tempfile.gettempdir()), VISIBLE)
    for path in (path for place in places for path in place.glob(f"{PREFIX}*")):
        with suppress(OSError):
            if path.stat().st_uid == os.geteuid() and _has_ended((path / RUN).read_text().strip()):
                paths.append(path)
    return paths


def _has_ended(run: str) -> bool:
    """Tell whether a run is over; one of another process namespace cannot be seen from here."""
    namespace, _, leader = run.rpartition(":")[0].rpartition(":")
    return namespace == _namespace() and start_time(int(leader)) != run.rpartition(":")[2]


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


def start_time(pid: int) -> str:
    """Return when a process began, in ticks since the machine did; empty if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def clean() -> tuple[int, int]:
    """End the processes and remove the folders, and tell how many there were of each."""
    ids: set[int] = set()
    deadline = time.monotonic() + WITHIN
    while (pids := processes()) and time.monotonic() < deadline:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ids.update(pids)
        time.sleep(0.01)
    paths = folders()
    for folder in paths:
        shutil.rmtree(folder)
    return len(ids), len(paths)


if __name__ == "__main__":
    ended, removed = clean()
    sys.stdout.write(f"Earlier runs: {ended} processes ended, {removed} folders removed.\n")
