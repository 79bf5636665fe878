"""How the verdict of a check is shown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.cli.show import print_lines, relative_path, screen_width
from cluster.core.units import format_value
from cluster.reports.fleet import findings_table, replacement_lines
from cluster.reports.formats.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.core.model.fleet import FleetVerdict

SHOWN = 5  # pairs without a value; the others are in verdict.json


def show_verdict(verdict: FleetVerdict) -> None:
    """Show the bad parts of a fleet, then the answer."""
    if verdict.findings:
        sys.stdout.write(table_text(findings_table(verdict), screen_width()))
    print_lines(*_lines(verdict))


def _lines(verdict: FleetVerdict) -> Iterator[str]:
    yield from (f"Undecided: {which}" for which in verdict.undecided)
    yield from _missing_lines(verdict.missing)
    yield from (f"Assumed: {what}" for what in verdict.assumptions)
    for one in verdict.findings:
        if one.confirm and not one.confirmed:
            yield f"To confirm {one.part}: {one.confirm}"
    simulated = " (simulated: nothing was measured)" if verdict.simulated else ""
    yield f"Run folder: {relative_path(Path(verdict.run))}{simulated}"
    if verdict.reference is not None and verdict.tolerance:
        unit = "B/s" if verdict.metric == "bandwidth" else "s"
        edge = 1 - verdict.tolerance
        line = verdict.reference * edge if unit == "B/s" else verdict.reference / edge
        side = "below" if unit == "B/s" else "above"
        yield (
            f"{verdict.tests} tests, {verdict.failed} without a value; low is {side} "
            f"{format_value(line, unit)}."
        )
    yield from replacement_lines(verdict)
    yield verdict.answer


def _missing_lines(missing: Sequence[str]) -> Iterator[str]:
    """Show the first pairs that have no value."""
    yield from (f"No value: {pair}" for pair in missing[:SHOWN])
    if len(missing) > SHOWN:
        more = len(missing) - SHOWN
        yield f"No value: {more} more {'pair' if more == 1 else 'pairs'}; all are in verdict.json."
