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
    confirmed = any(finding.confirmed for finding in verdict.findings)
    names = ("verdict", "part", "direction", "best", "tests", "evidence")
    new = {finding.part: finding.new for finding in verdict.replaced}
    more = (*(("confirmed",) if confirmed else ()), *(("replaced by",) if new else ()))
    return Table(
        title="simulated" if verdict.simulated else "",
        columns=(*names, *more),
        rows=tuple(
            (
                finding.kind,
                f"{finding.part} ({finding.name})" if finding.name else finding.part,
                finding.direction,
                "-" if finding.capacity is None else format_value(finding.capacity, unit),
                str(finding.tests),
                finding.evidence,
            )
            + ((finding.confirmed or "-",) if confirmed else ())
            + ((new.get(_host(finding.place)) or "-",) if new else ())
            for finding in verdict.findings
        ),
        notes=(SIMULATED,) if verdict.simulated else (),
        left_aligned=("verdict", "part", "direction", "evidence", "confirmed", "replaced by"),
    )


def _host(part: Part) -> str:
    """Return the host that a part belongs to, such as `host:3` for a NIC of it."""
    return f"host:{part.host}" if part.kind in ("host", "nic") else ""


def replacement_lines(verdict: FleetVerdict) -> Iterator[str]:
    for replaced in verdict.replaced:
        name = f"{replaced.part} ({replaced.name})"
        if replaced.new:
            yield f"Replaced {name}: {replaced.old} by {replaced.new}; {replaced.evidence}."
        elif replaced.command:
            yield f"Not replaced: {name}: {replaced.evidence}. {replaced.command}"
        else:
            yield f"Not replaced: {name}: {replaced.evidence}. {replaced.old} stays."


def group_table(placement: Placement) -> Table:
    members: dict[int, list[int]] = {}
    for host, group in enumerate(placement.groups):
        members.setdefault(group, []).append(host)
    return Table(
        title="simulated" if placement.simulated else "",
        columns=("group", "hosts", "which"),
        rows=tuple(
            (str(group), str(len(hosts)), _host_names(placement, hosts))
            for group, hosts in members.items()
        ),
        notes=(SIMULATED,) if placement.simulated else (),
        left_aligned=("group", "which"),
    )


def layer_table(placement: Placement) -> Table:
    """Show the provider's layers, the nearest first, and how far latency agrees."""
    return Table(
        title="simulated" if placement.simulated else "",
        columns=("provider's layer", "groups", "hosts in each", "agrees"),
        rows=tuple(
            (
                layer.name,
                str(len(layer.sizes)),
                ", ".join(map(str, layer.sizes[:SHOWN]))
                + (", ..." if len(layer.sizes) > SHOWN else ""),
                "-" if layer.agreement is None else f"{layer.agreement:.1%}",
            )
            for layer in placement.topology.layers
        ),
        notes=(SIMULATED,) if placement.simulated else (),
        left_aligned=("provider's layer", "hosts in each"),
    )


def _host_names(placement: Placement, hosts: list[int]) -> str:
    named = ", ".join(f"host:{host} ({placement.names[host]})" for host in hosts[:SHOWN])
    return f"{named}, and {len(hosts) - SHOWN} more" if len(hosts) > SHOWN else named
