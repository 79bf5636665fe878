"""The hosts, links and groups of a fleet that are found to be bad, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.units import format_value
from cluster.reports.tables import Table

if TYPE_CHECKING:
    from cluster.core.model.fleet import FleetVerdict


def blamed_table(verdict: FleetVerdict) -> Table:
    """Show the bad parts of a fleet, with the reason for each.

    Args:
        verdict: of a fleet.

    Returns:
        A row for each bad host, link or group.

    """
    unit = "B/s" if verdict.metric == "bandwidth" else "s"
    confirmed = any(one.confirmed for one in verdict.blamed)
    names = ("verdict", "part", "direction", "best", "tests", "evidence")
    simulated = "simulated: nothing was measured."
    return Table(
        title="simulated" if verdict.simulated else "",
        columns=(*names, "confirmed") if confirmed else names,
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
            for one in verdict.blamed
        ),
        notes=(simulated,) if verdict.simulated else (),
        left=("verdict", "part", "direction", "evidence", "confirmed"),
    )
