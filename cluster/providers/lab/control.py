"""Change a link of a lab while it is up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from cluster.core.errors import SpecError
from cluster.core.units import format_rate, parse_rate
from cluster.providers.lab.network import host_number, inside, line_rate
from cluster.providers.lab.options import LabOptions
from cluster.providers.lab.processes import kill_all, processes_of
from cluster.providers.lab.rootfs import (
    shape,
    text_of,
)

if TYPE_CHECKING:
    from cluster.core.model.hosts import Machine


Verb = Literal["slow", "cut", "heal", "kill"]


def alter(machine: Machine, verb: Verb, rate: str = "") -> float | None:
    """Change the link of one host, or end the host, while the cluster runs.

    The change is a fault: the machine keeps the link that it was made with, which limits what it
    should reach.

    Args:
        machine: the host.
        verb: `slow` (its link gets another rate), `cut` (its link carries no packets), `heal` (its
            link is restored) or `kill` (its power is gone:
            its link carries no packets, and all its processes are killed).
        rate: for `slow`, such as `100mbit`; a tenth of the original rate, if empty.

    Returns:
        The rate of its link now, in bytes per second; None if it is unlimited or down.

    Raises:
        SpecError: the host does not run any more, or the rate is not valid.

    """
    number, name = host_number(machine), machine.name.split(".")[2]
    running = {process.number: process for process in processes_of(name)}
    if number not in running or "switch" not in running:
        raise SpecError(
            f"{machine.name} does not run any more.", remedy=f"Create it again: cluster down {name}"
        )
    host, switch = running[number], running["switch"]
    made = msgspec.json.decode(text_of(host.folder / "options.json"), type=LabOptions)
    if verb in ("cut", "kill"):
        inside(switch.pid, "ip", f"link set dev h{number} down\n")
        if verb == "kill":  # after the link, as a host that loses its power closes no connection
            kill_all([host])
        return None
    made = _slower(made, rate) if verb == "slow" else made
    inside(switch.pid, "ip", f"link set dev h{number} up\n")
    inside(switch.pid, "tc", shape(f"h{number}", line_rate(made), made.mtu))
    inside(host.pid, "tc", shape("eth0", line_rate(made), made.mtu))
    return line_rate(made)


def _slower(options: LabOptions, rate: str) -> LabOptions:
    if not rate and not options.rate:
        raise SpecError(
            "Its links have no rate of which a tenth could be taken.",
            remedy="Say how slow: --rate 100mbit",
        )
    slow = parse_rate(rate) if rate else parse_rate(options.rate) / 10
    return msgspec.structs.replace(options, rate=format_rate(slow))
