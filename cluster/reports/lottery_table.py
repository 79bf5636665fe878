"""Machines drawn several times: how much draws differ, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.money import HOUR
from cluster.core.units import format_point, format_seconds, format_value
from cluster.reports.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.lottery import DrawnSeries

TERMS = (
    "between: standard deviation of draws, without what the jobs within a draw add; chance: that "
    "draws differ as much by chance; gain: of the best draw, without its luck with jobs. It pays "
    "off for a job that does nothing else on these machines."
)
TIME = (
    "Draws follow one another: what changes with time, such as the load of neighbours, counts as "
    "the draw."
)


def lottery_table(series: Sequence[DrawnSeries], draws: int) -> Table:
    """Show how much draws of machines differ: a row per data point.

    Args:
        series: of the draws.
        draws: how many there were.

    Returns:
        A table.

    """
    return Table(
        title=f"{draws} draws of machines",
        columns=(
            *("metric", "parameters", "mean", "between draws", "within", "chance"),
            *(f"best of {draws}", "gain", "pays off after"),
        ),
        rows=tuple(map(_row, series)),
        notes=(TERMS, TIME),
        left=("metric", "parameters"),
        spare=(("pays off after",), ("chance",)),
    )


def _row(one: DrawnSeries) -> tuple[str, ...]:
    best = one.best[-1]
    return (
        one.metric,
        format_point(one.params),
        format_value(one.mean, one.unit),
        f"{one.between / abs(one.mean):.1%}" if one.mean else "-",
        f"{one.within / abs(one.mean):.1%}" if one.mean else "-",
        f"{one.chance:.2g}",
        format_value(best.measured, one.unit),
        f"{best.gain:.1%}" if one.differs else "none seen",
        format_seconds(best.hours * HOUR) if one.differs and best.hours else "-",
    )
