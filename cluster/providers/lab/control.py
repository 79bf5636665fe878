"""Change a link of a lab while it is up."""

from typing import Literal

from cluster.core import decoders
from cluster.core.errors import SpecError
from cluster.core.model.hosts import Machine
from cluster.core.units import parse_rate
from cluster.providers.lab.network import host_number, inside, line_rate, shape_uplink
from cluster.providers.lab.options import LabOptions
from cluster.providers.lab.processes import HostProcess, kill_all, processes_of
from cluster.providers.lab.rootfs import shape, text_of

Verb = Literal["slow", "cut", "heal", "kill"]
Direction = Literal["tx", "rx", "both"]
NOWHERE = "02:00:00:00:00:01"  # a locally administered MAC address that no host has


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
