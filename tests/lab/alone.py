"""A machine of its own: what is found there afterwards was left by us, and by nobody else."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import COMMAND, PATIENCE, ROOT, run, until
from tests.forked import can_fork, run_forked

# Seconds that the kernel may take: it ends what is killed, and takes the devices of a network
# namespace away after its last process, on its own time, after the command has returned.
KERNEL_WITHIN = 10.0
# /tmp, /run and /dev/shm are empty there, but for the folders that the test itself needs.
BEGIN = """
set -eu
mount -t sysfs sysfs /sys
ip link set dev lo up
mount -t tmpfs tmpfs /run
for folder; do mkdir -p "/run/keep$folder" && mount --rbind "$folder" "/run/keep$folder"; done
mount -t tmpfs tmpfs /tmp
for folder; do mkdir -p "$folder" && mount --move "/run/keep$folder" "$folder"; done
rm -r /run/keep
mount -t tmpfs tmpfs /dev/shm
sleep infinity &
touch /run/begun
wait
"""
# Its own words are the same every time.
LEFT = """
ip -o link | cut -d: -f2
cat /proc/mounts
lsns -n -t net -o TYPE,NPROCS
for process in /proc/[0-9]*; do tr '\\0' ' ' < "$process/cmdline" && echo; done
find /tmp /run /dev/shm "$1" -xdev
"""
PROGRAM = """\
import importlib, os, signal, sys

import cluster

where, _, path = sys.argv[1].partition(":")
*owners, name = path.split(".")
owner = importlib.import_module(where)
for word in owners:
    owner = getattr(owner, word)
getattr(owner, name)  # a name that is not called any more fails here


def die(*words: object, **more: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


setattr(owner, name, die)
"""


class Alone:
    """Namespaces around the labs that a test makes: their devices, processes and mounts.

    Args:
        pid: of its first process.
        state: folder of all clusters.
    """

    def __init__(self, pid: int, state: Path) -> None:
        enter = ("nsenter", "-t", str(pid), "--net", "--mount", "--pid", "--ipc")
        self._enter = (*enter, "env", f"CLUSTER_STATE={state}")
        self._pid = pid
        self._state = state

    def run(self, *words: str, status: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run a command there."""
        return run(*self._enter, *words, status=status)

    def command(self, *words: str, status: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run the `cluster` command there."""
        return self._script(COMMAND, *words, status=status)

    def _script(self, *words: str, status: int | None) -> subprocess.CompletedProcess[str]:
        if not can_fork(*words):
            return self.run(sys.executable, *words, status=status)
        state = str(self._state)
        result = run_forked(*words, timeout=PATIENCE * 2, machine=self._pid, CLUSTER_STATE=state)
        assert status in (None, result.returncode), f"{words}\n{result.stdout}\n{result.stderr}"
        return result

    def list_leftovers(self) -> list[str]:
        """List all devices, mounts, network namespaces, processes and files there."""
        return sorted(self.run("sh", "-c", LEFT, "left", str(self._state)).stdout.splitlines())

    def await_leftovers(self, before: list[str]) -> list[str]:
        """List what is left as soon as it is what was there before, or after `KERNEL_WITHIN`."""
        deadline = time.monotonic() + KERNEL_WITHIN
        while (leftovers := self.list_leftovers()) != before and time.monotonic() < deadline:
            time.sleep(0.1)
        return leftovers

    def die_at(self, point: str, program: str) -> None:
        """Run a program there that ends by SIGKILL as soon as it calls a function."""
        path = self._state.parent / "dies.py"
        path.write_text(f"{PROGRAM}\n{program}")
        self._script(str(path), point, status=-signal.SIGKILL)


@pytest.fixture
def alone(possible: None, tmp_path: Path, home: Path) -> Iterator[Alone]:
    """Make one; with it goes whatever a test has left there."""
    needed = [path for path in (ROOT, tmp_path) if path.is_relative_to("/tmp")]  # noqa: S108
    words = ["unshare", "--net", "--mount", "--pid", "--ipc", "--fork", "--kill-child"]
    words += ["--mount-proc", "sh", "-c", BEGIN, "alone", *map(str, needed)]
    with subprocess.Popen(words) as process:
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            first = int(until(children.read_text, "it has a process"))
            until(Path(f"/proc/{first}/root/run/begun").exists, "it is made")
            (tmp_path / "state").mkdir()
            yield Alone(first, tmp_path / "state")
        finally:
            process.kill()
