"""The processes of a lab: one `unshare` for each host, and one for the switch; and their links."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from cluster.core import decoders, journal
from cluster.core.errors import ProvisionError, SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.value import Value
from cluster.core.units import parse_rate
from cluster.providers.lab.network import host_number, inside, line_rate, shape_uplink
from cluster.providers.lab.options import GONE_WITHIN, POLL, LabOptions
from cluster.providers.lab.rootfs import shape, text_of

SHORTEST = 4  # arguments at the end of a host's command line: init, cluster, number, empty

START = r"""
init=$0 name=$1
shift
exec 3<&0
for number; do
  env --default-signal unshare --net --mount --pid --uts --ipc --fork --kill-child \
    sh "$init" "$name" "$number" <&3 3<&- &
  echo "$number $!"
done
"""
Verb = Literal["slow", "cut", "heal", "kill"]
Direction = Literal["tx", "rx", "both"]
NOWHERE = "02:00:00:00:00:01"  # a locally administered MAC address that no host has


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
    return folder.parent == journal.root() or not (folder / "journal.jsonl").exists()


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


def alter(
    machine: Machine, verb: Verb, rate: str = "", direction: Direction = "both"
) -> float | None:
    """Change the link of one host, or end the host, while the cluster runs; return the link's rate.

    `kill` takes its power: the link carries no packets, and all processes are killed. `slow` gives
    the link a rate such as `100mbit`, or a tenth of its own, for what the host sends (`tx`) or
    receives (`rx`). It is a fault: the machine keeps the link that it was made with, which limits
    what it should reach. The rate is in bytes per second; None if it is unlimited or down.
    SpecError: the host does not run any more, or the rate is not valid.
    """
    number, switch, host = host_number(machine), *_running(machine.name.split(".")[2], machine)
    created = _created_options(host)
    if verb in ("cut", "kill"):
        inside(switch.pid, "ip", f"link set dev h{number} down\n")
        if verb == "kill":  # after the link, as a host that loses its power closes no connection
            kill_all([host])
        return None
    whole = line_rate(created)
    now = _slow(whole, rate) if verb == "slow" else whole
    sends, receives = (now if direction in (way, "both") else whole for way in ("tx", "rx"))
    inside(switch.pid, "ip", f"link set dev h{number} up\n")
    inside(host.pid, "ip", "neigh flush dev eth0 nud permanent\n")
    inside(switch.pid, "tc", shape(f"h{number}", receives, created.mtu))
    inside(host.pid, "tc", shape("eth0", sends, created.mtu))
    return now


def alter_uplink(name: str, leaf: int, verb: Verb, rate: str = "") -> float | None:
    """Change the uplink of a leaf switch as `alter` does, and return its rate.

    SpecError: there is no such leaf, the verb is for hosts only, or the rate is not valid.
    """
    (switch,) = _running(name)
    created = _created_options(switch)
    if leaf not in range(created.leaves):
        raise SpecError(
            f"The lab {name} has {created.leaves} leaf switches, and none has number {leaf}.",
            remedy="Make some: cluster up NAME --provider lab --hosts 16 --option leaves=4",
        )
    if verb == "kill":
        raise SpecError("A leaf switch can be slowed, cut off or healed.")
    inside(switch.pid, "ip", f"link set dev up{leaf} {'down' if verb == 'cut' else 'up'}\n")
    if verb == "cut":
        return None
    whole = parse_rate(created.uplink) if created.uplink else None
    now = _slow(whole, rate) if verb == "slow" else whole
    inside(switch.pid, "tc", shape_uplink(leaf, now, created.mtu))
    return now


def alter_pair(first: Machine, second: Machine, verb: Verb) -> None:
    """Cut or heal the way between two hosts (SpecError: one is down, or the verb is for one)."""
    if verb not in ("cut", "heal"):
        raise SpecError("A pair of hosts can be cut off from one another, or healed.")
    for machine, other in ((first, second), (second, first)):
        _, host = _running(machine.name.split(".")[2], machine)
        address = other.access.host if other.access else other.address
        change = f"replace {address} lladdr {NOWHERE} nud permanent" if verb == "cut" else ""
        inside(host.pid, "ip", f"neigh {change or f'del {address}'} dev eth0\n")


def _running(name: str, *machines: Machine) -> tuple[HostProcess, ...]:
    running = {process.number: process for process in processes_of(name)}
    numbers = ("switch", *map(host_number, machines))
    for number, label in zip(numbers, (name, *(m.name for m in machines)), strict=True):
        if number not in running:
            raise SpecError(
                f"{label} does not run any more.", remedy=f"Create it again: cluster down {name}"
            )
    return tuple(running[number] for number in numbers)


def _created_options(process: HostProcess) -> LabOptions:
    text = text_of(process.folder / "options.json")
    return decoders.decode(text, LabOptions)


def _slow(whole: float | None, rate: str) -> float:
    """Return rate of a slow link in bytes per second: the one named, or a tenth of the whole."""
    if rate:
        return parse_rate(rate)
    if whole is None:
        raise SpecError(
            "Its links have no rate of which a tenth could be taken.",
            remedy="Say how slow: --rate 100mbit",
        )
    return whole / 10
