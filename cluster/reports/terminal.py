"""A table for a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from cluster.reports import Report, columns, rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.model import Summary

LEFT = ("metric", "parameters", "converged")
WIDE = 100_000  # columns: a table is never squeezed; a narrow terminal wraps it


class Terminal(Report):
    """Aligned columns, and the notes below."""

    def render(self, summaries: Sequence[Summary], *, notes: Sequence[str] = ()) -> str:
        """Show a row per summary."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in columns(summaries):
            table.add_column(column, justify="left" if column in LEFT else "right", no_wrap=True)
        for cells in rows(summaries):
            table.add_row(*cells)
        shown = plain_text(table) if summaries else "No values were taken.\n"
        return shown + "".join(f"Note: {note}\n" for note in notes)


def plain_text(table: Table) -> str:
    """Give a table as text, as wide as it needs to be, whatever the terminal is.

    Args:
        table: of rich.

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
    console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().strip("\n").splitlines())
