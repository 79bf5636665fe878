"""The processes of a lab: one `unshare` for each host, and one for the switch."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from cluster.core.errors import ProvisionError
from cluster.core.model.value import Value
from cluster.core.state.files import load_script, state_folder, text_of
from cluster.providers.lab.options import GONE_WITHIN, POLL

SHORTEST = 4  # arguments at the end of a host's command line: init, cluster, number, empty

START = load_script(__file__, "start_hosts.sh")


class HostProcess(Value, frozen=True, kw_only=True):
    """The `unshare` process of a host or of the switch."""

    pid: int  # of `unshare`; its child is the first process of the host
    folder: Path  # of the lab
    number: str  # of the host, or `switch`

    @property
    def name(self) -> str:
        return self.folder.parent.name

    @property
    def kind(self) -> str:
        """What it is, for a person: `host 3` or `switch`."""
        return "switch" if self.number == "switch" else f"host {self.number}"


def processes_of(name: str = "") -> list[HostProcess]:
    """Find the processes of one lab, or of all labs, on this machine.

    A lab of another state folder is left out while a journal there knows it. Processes in a
    container are left out as well, because their files cannot be read from here.
    """
    processes = []
    own_namespace = Path("/proc/self/ns/pid").readlink()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if (
                words[0] != "unshare"
                or len(words) < SHORTEST
                or not words[-4].endswith("/lab/init")
            ):
                continue
            if path.stat().st_uid == os.geteuid() and (path / "ns/pid").readlink() == own_namespace:
                processes.append(
                    HostProcess(pid=int(path.name), folder=Path(words[-4]).parent, number=words[-2])
                )
    return [p for p in processes if name in ("", p.name) and _is_ours(p.folder.parent)]


def _is_ours(folder: Path) -> bool:
    return folder.parent == state_folder() or not (folder / "journal.jsonl").exists()


def kill_all(processes: Iterable[HostProcess]) -> None:
    """Kill hosts, and wait for their first processes, which end after all others of the host."""
    pids = [pid for process in processes for pid in (*_children(process.pid), process.pid)]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + GONE_WITHIN
    while alive := [pid for pid in pids if not _has_ended(pid)]:
        if time.monotonic() > deadline:
            raise ProvisionError(f"{len(alive)} processes of the lab cannot be ended: {alive}")
        time.sleep(POLL)


def _children(pid: int) -> list[int]:
    numbers = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [number for number in numbers if _stat(number)[1:2] == [str(pid)]]


def _has_ended(pid: int) -> bool:
    fields = _stat(pid)
    return not fields or fields[0] == "Z"


def _stat(pid: int) -> list[str]:
    """Return the fields of a process's `stat` from its state on; empty if the process is gone."""
    return text_of(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
