"""What analysis finds, as tables of text that any report can show."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cluster.analysis.compare import headline
from cluster.model import Value
from cluster.units import format_point, format_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.analysis.compare import Cell, Comparison

STRIP = 21  # characters, one of them for "as fast as before"
WIDEST = 1.0  # of the strip to each side, in powers of two


class Sheet(Value, frozen=True, kw_only=True):
    """A table with its title, and what to know of it.

    Args:
        title: of the table; the result, where it has one.
        columns: their names.
        rows: of cells.
        notes: below it.
        left: columns of words; all others hold numbers.

    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def compared(comparison: Comparison) -> tuple[Sheet, Sheet]:
    """Show a comparison: what differs first, then what came of it.

    Args:
        comparison: of two groups of launches.

    Returns:
        A table of factors, and one of cells.

    """
    return _differing(comparison), _cells(comparison)


def _differing(comparison: Comparison) -> Sheet:
    nothing = "What differs: nothing that was recorded"
    return Sheet(
        title="What differs" if comparison.factors else nothing,
        columns=("factor", comparison.base, comparison.other),
        rows=tuple((factor.name, factor.base, factor.other) for factor in comparison.factors),
        left=("factor", comparison.base, comparison.other),
    )


def _cells(comparison: Comparison) -> Sheet:
    span = _span(comparison.cells)
    strip = f"{2**-span:.2f} .. {2**span:.2f}"
    columns = (
        "metric",
        "parameters",
        comparison.base,
        comparison.other,
        "ratio",
        "95% CI of ratio",
    )
    return Sheet(
        title=headline(comparison),
        columns=(*columns, strip, "verdict", "why"),
        rows=tuple(_cell(cell, span) for cell in comparison.cells),
        notes=(*_explained(comparison), *comparison.notes),
        left=("metric", "parameters", strip, "verdict", "why"),
    )


def _explained(comparison: Comparison) -> tuple[str, ...]:
    limit = f"{comparison.threshold:.1%}"
    ratios = f"The ratio is that of {comparison.other} to {comparison.base}, of medians of launches"
    unlike = f"its interval leaves out 1, it is beyond {limit}, and no chance among so many cells"
    return (
        f"{ratios}. Faster or slower: {unlike}. Equivalent: all of the interval is within {limit}.",
    )


def _cell(cell: Cell, span: float) -> tuple[str, ...]:
    medians = ("-" if m is None else format_value(m, cell.unit) for m in (cell.base, cell.other))
    interval = "none"
    if cell.interval is not None:
        interval = " .. ".join(f"{end:.4f}" for end in cell.interval)
    return (
        cell.metric,
        format_point(cell.params),
        *medians,
        "-" if cell.ratio is None else f"{cell.ratio:.4f}",
        interval,
        strip(cell.ratio, cell.interval, span),
        cell.verdict,
        cell.reason,
    )


def _span(cells: Sequence[Cell]) -> float:
    """Give how far a strip goes to each side, in powers of two: as far as most cells need."""
    ends = [abs(math.log2(end)) for cell in cells for end in cell.interval or () if end > 0]
    return min(WIDEST, max([0.05, *ends]))


def strip(ratio: float | None, interval: tuple[float, float] | None, span: float) -> str:
    """Draw an interval around its ratio, on a line whose middle is 1.

    Args:
        ratio: of two medians.
        interval: of the ratio.
        span: of the line to each side, in powers of two.

    Returns:
        Characters such as `.....|.--*--....`.

    """
    line = ["."] * STRIP
    line[STRIP // 2] = "|"
    if ratio is None or interval is None:
        return "".join(line)
    low, middle, high = (_place(value, span) for value in (interval[0], ratio, interval[1]))
    line[low : high + 1] = "-" * (high + 1 - low)
    line[middle] = "*"
    return "".join(line)


def _place(value: float, span: float) -> int:
    part = math.log2(value) / span if value > 0 else -1.0
    return round((min(1.0, max(-1.0, part)) + 1) / 2 * (STRIP - 1))
