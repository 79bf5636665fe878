"""The hosts, links and groups of a fleet that are found to be bad, as a table."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from cluster.core.model.fleet import FleetFinding, FleetVerdict
from cluster.core.model.placement import NetworkLayer, Placement
from cluster.reports.table import Column, Columns, Table, make_table, share_text, value_text

T = TypeVar("T")
SHOWN = 8  # hosts of a group that are named


def findings_table(verdict: FleetVerdict) -> Table:
    """Show what tests say of parts of a fleet, what is blamed first, with the reason for each."""
    unit = "B/s" if verdict.metric == "bandwidth" else "s"
    confirmed = any(finding.confirmed for finding in verdict.findings)
    new = {finding.part: finding.new for finding in verdict.replaced}

    def replaced_by(finding: FleetFinding) -> str:
        place = finding.place
        return (new.get(f"host:{place.host}") if place.kind in ("host", "nic") else "") or "-"

    columns: Columns[FleetFinding] = (
        Column("verdict", lambda f: f.kind, words=True),
        Column("part", lambda f: f"{f.part} ({f.name})" if f.name else f.part, words=True),
        Column("direction", lambda f: f.direction, words=True),
        Column("best", lambda f: value_text(f.capacity, unit, "-")),
        Column("tests", lambda f: str(f.tests)),
        Column("evidence", lambda f: f.evidence, words=True),
        Column("confirmed", lambda f: f.confirmed or "-", words=True, shown=confirmed),
        Column("replaced by", replaced_by, words=True, shown=bool(new)),
    )
    return _table(verdict.findings, columns, simulated=verdict.simulated)


def _table(items: Iterable[T], columns: Columns[T], *, simulated: bool) -> Table:
    notes = ("simulated: nothing was measured.",) if simulated else ()
    return make_table("simulated" if simulated else "", items, columns, notes)


def replacement_lines(verdict: FleetVerdict) -> Iterator[str]:
    for replaced in verdict.replaced:
        name = f"{replaced.part} ({replaced.name})"
        if replaced.new:
            yield f"Replaced {name}: {replaced.old} by {replaced.new}; {replaced.evidence}."
        elif replaced.node:
            yield f"Cordoned {replaced.node}, of {name}. To undo it: {replaced.command}"
        elif replaced.command:
            yield f"Not replaced: {name}: {replaced.evidence}. {replaced.command}"
        else:
            yield f"Not replaced: {name}: {replaced.evidence}. {replaced.old} stays."


def group_table(placement: Placement) -> Table:
    members: dict[int, list[int]] = {}
    for host, group in enumerate(placement.groups):
        members.setdefault(group, []).append(host)
    columns: Columns[tuple[int, list[int]]] = (
        Column("group", lambda row: str(row[0]), words=True),
        Column("hosts", lambda row: str(len(row[1]))),
        Column("which", lambda row: _host_names(placement, row[1]), words=True),
    )
    return _table(members.items(), columns, simulated=placement.simulated)


def layer_table(placement: Placement) -> Table:
    columns: Columns[NetworkLayer] = (
        Column("provider's layer", lambda layer: layer.name, words=True),
        Column("groups", lambda layer: str(len(layer.sizes))),
        Column("hosts in each", _sizes, words=True),
        Column("agrees", lambda layer: share_text(layer.agreement, "-")),
    )
    return _table(placement.topology.layers, columns, simulated=placement.simulated)


def _sizes(layer: NetworkLayer) -> str:
    more = ", ..." if len(layer.sizes) > SHOWN else ""
    return ", ".join(map(str, layer.sizes[:SHOWN])) + more


def _host_names(placement: Placement, hosts: list[int]) -> str:
    named = ", ".join(f"host:{host} ({placement.names[host]})" for host in hosts[:SHOWN])
    return f"{named}, and {len(hosts) - SHOWN} more" if len(hosts) > SHOWN else named
