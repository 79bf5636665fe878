"""The hosts, links and groups of a fleet that are found to be bad, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.units import format_value
from cluster.reports.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.core.model.fleet import FleetVerdict, Part
    from cluster.core.model.placement import Placement

SIMULATED = "simulated: nothing was measured."
SHOWN = 8  # hosts of a group that are named


def findings_table(verdict: FleetVerdict) -> Table:
    """Show what tests say of parts of a fleet, what is blamed first, with the reason for each."""
    unit = "B/s" if verdict.metric == "bandwidth" else "s"
    confirmed = any(one.confirmed for one in verdict.findings)
    names = ("verdict", "part", "direction", "best", "tests", "evidence")
    new = {one.part: one.new for one in verdict.replaced}
    more = (*(("confirmed",) if confirmed else ()), *(("replaced by",) if new else ()))
    return Table(
        title="simulated" if verdict.simulated else "",
        columns=(*names, *more),
        rows=tuple(
            (
                one.kind,
                f"{one.part} ({one.name})" if one.name else one.part,
                one.direction,
                "-" if one.capacity is None else format_value(one.capacity, unit),
                str(one.tests),
                one.evidence,
            )
            + ((one.confirmed or "-",) if confirmed else ())
            + ((new.get(_host(one.place)) or "-",) if new else ())
            for one in verdict.findings
        ),
        notes=(SIMULATED,) if verdict.simulated else (),
        left=("verdict", "part", "direction", "evidence", "confirmed", "replaced by"),
    )


def _host(part: Part) -> str:
    """Return the host that a part belongs to, such as `host:3` for a NIC of it."""
    return f"host:{part.host}" if part.kind in ("host", "nic") else ""


def replacement_lines(verdict: FleetVerdict) -> Iterator[str]:
    """Say what became of the hosts that were to be replaced."""
    for one in verdict.replaced:
        name = f"{one.part} ({one.name})"
        if one.new:
            yield f"Replaced {name}: {one.old} by {one.new}; {one.evidence}."
        elif one.command:
            yield f"Not replaced: {name}: {one.evidence}. {one.command}"
        else:
            yield f"Not replaced: {name}: {one.evidence}. {one.old} stays."


def group_table(found: Placement) -> Table:
    """Show the groups of hosts that are near one another."""
    members: dict[int, list[int]] = {}
    for host, group in enumerate(found.groups):
        members.setdefault(group, []).append(host)
    return Table(
        title="simulated" if found.simulated else "",
        columns=("group", "hosts", "which"),
        rows=tuple(
            (str(group), str(len(hosts)), _which(found, hosts)) for group, hosts in members.items()
        ),
        notes=(SIMULATED,) if found.simulated else (),
        left=("group", "which"),
    )


def layer_table(found: Placement) -> Table:
    """Show which hosts the provider puts together, and how far latency agrees.

    A row for each layer of the provider's network, the nearest to the hosts first.
    """
    return Table(
        title="simulated" if found.simulated else "",
        columns=("provider's layer", "groups", "hosts in each", "agrees"),
        rows=tuple(
            (
                layer.name,
                str(len(layer.sizes)),
                ", ".join(map(str, layer.sizes[:SHOWN]))
                + (", ..." if len(layer.sizes) > SHOWN else ""),
                "-" if layer.agreement is None else f"{layer.agreement:.1%}",
            )
            for layer in found.topology.layers
        ),
        notes=(SIMULATED,) if found.simulated else (),
        left=("provider's layer", "hosts in each"),
    )


def _which(found: Placement, hosts: list[int]) -> str:
    named = ", ".join(f"host:{host} ({found.names[host]})" for host in hosts[:SHOWN])
    return f"{named}, and {len(hosts) - SHOWN} more" if len(hosts) > SHOWN else named
