"""A table for a terminal."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.console import Console
from rich.table import Table as Grid

from cluster.core.units import format_point
from cluster.reports.formats import LEFT, Report, columns, rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.core.model.measurements import Summary
    from cluster.core.model.value import Scalar
    from cluster.reports.tables import Table

BARS = "▁▂▃▄▅▆▇█"
ENOUGH_TO_SKETCH = 4  # sizes
WIDE = 100_000  # columns: a table is never squeezed; a narrow terminal wraps it


class Terminal(Report):
    """Aligned columns, and the notes below."""

    def render(self, summaries: Sequence[Summary], *, notes: Sequence[str] = ()) -> str:
        """Show a row per summary."""
        grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in columns(summaries):
            grid.add_column(column, justify="left" if column in LEFT else "right", no_wrap=True)
        for cells in rows(summaries):
            grid.add_row(*cells)
        shown = plain_text(grid) if summaries else "No values were taken.\n"
        sketched = "".join(f"{line}\n" for line in sparklines(summaries))
        return shown + sketched + "".join(f"Note: {note}\n" for note in notes)


def table_text(table: Table) -> str:
    """Show any table, with its title above and its notes below.

    Args:
        table: to show.

    Returns:
        Its lines.

    """
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in table.columns:
        justify: Literal["left", "right"] = "left" if column in table.left else "right"
        grid.add_column(column, justify=justify, no_wrap=True)
    for cells in table.rows:
        grid.add_row(*cells)
    shown = plain_text(grid) if table.rows else ""
    notes = "".join(f"Note: {note}\n" for note in table.notes)
    return f"{table.title}\n{shown}{notes}"


def sparklines(summaries: Sequence[Summary]) -> Iterator[str]:
    """Draw each metric over its sizes in one line of bars, on a logarithmic scale.

    Args:
        summaries: in the order of their sizes.

    Yields:
        A line per metric that was taken at four sizes or more.

    """
    for metric in dict.fromkeys(summary.metric for summary in summaries):
        taken = [s for s in summaries if s.metric == metric and 0 < s.median < math.inf]
        sweeps: dict[tuple[tuple[str, Scalar], ...], list[Summary]] = {}
        for summary in taken:
            rest = tuple((k, v) for k, v in summary.params.items() if k != "size")
            sweeps.setdefault(rest, []).append(summary)
        for rest, sweep in sweeps.items():
            if len(sweep) >= ENOUGH_TO_SKETCH and all("size" in s.params for s in sweep):
                what = ", ".join([metric, *(f"{key} {value}" for key, value in rest)])
                yield f"{what}, {_ends(sweep)} (log): {sparkline([s.median for s in sweep])}"


def _ends(sweep: Sequence[Summary]) -> str:
    first, last = (format_point({"size": s.params["size"]}) for s in (sweep[0], sweep[-1]))
    return f"{first} .. {last}"


def sparkline(values: Sequence[float]) -> str:
    """Draw positive values as bars of one line, on a logarithmic scale.

    Args:
        values: to draw.

    Returns:
        A character for each.

    """
    logs = [math.log(value) for value in values]
    low, span = min(logs), max(logs) - min(logs)
    return "".join(BARS[round((v - low) / span * (len(BARS) - 1)) if span else 0] for v in logs)


def plain_text(grid: Grid) -> str:
    """Give a table as text, as wide as it needs to be, whatever the terminal is.

    Args:
        grid: of rich.

    Returns:
        Its lines, without spaces at their ends.

    """
    out = io.StringIO()
    console = Console(
        file=out,
        width=WIDE,
        force_terminal=False,
        color_system=None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(grid)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().strip("\n").splitlines())
