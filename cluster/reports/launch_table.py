"""Several launches of one command, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.analysis.launches import spread
from cluster.core.units import format_point, format_value
from cluster.reports.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.measurements import Summary


def launches_table(pooled: Sequence[Summary], launches: int, notes: Sequence[str] = ()) -> Table:
    """Show the medians over several launches: a row per data point.

    Args:
        pooled: the result of `pool_launches`.
        notes: what a reader of the values must know.

    """
    bounded = any(one.share is not None for one in pooled)
    sure = any(one.ci is not None for one in pooled)
    return Table(
        title=f"Median over {launches} launches",
        columns=(
            *("metric", "parameters", "median"),
            *(("95% CI over launches",) if sure else ()),
            *("lowest .. highest", "spread"),
            *(("of limit",) if bounded else ()),
        ),
        rows=tuple(_row(one, bounded=bounded, sure=sure) for one in pooled),
        notes=tuple(notes),
        left=("metric", "parameters"),
        spare=(("lowest .. highest",), ("spread",)) if sure else (("spread",),),
    )


def _row(one: Summary, *, bounded: bool, sure: bool) -> tuple[str, ...]:
    shape, apart = one.shape, spread(one)
    return (
        one.metric,
        format_point(one.params),
        format_value(one.median, one.unit),
        *((_ends(one.ci, one.unit),) if sure else ()),
        _ends(None if shape is None else (shape.minimum, shape.maximum), one.unit),
        "-" if apart is None else f"{apart:.0%}",
        *(("-" if one.share is None else f"{one.share:.1%}",) if bounded else ()),
    )


def _ends(ends: tuple[float, float] | None, unit: str) -> str:
    return "-" if ends is None else " .. ".join(format_value(end, unit) for end in ends)
