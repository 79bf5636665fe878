"""A table in GitHub's Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.reports import Report, columns, rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.model import Summary


class Markdown(Report):
    """A table, and the notes as paragraphs."""

    def render(self, summaries: Sequence[Summary], *, notes: Sequence[str] = ()) -> str:
        """Show a row per summary."""
        head = columns(summaries)
        lines = [head, ["---"] * len(head), *rows(summaries)]
        table = [f"| {' | '.join(_escaped(cell) for cell in cells)} |" for cells in lines]
        paragraphs = [line for note in notes for line in ("", f"Note: {note}")]
        return "\n".join([*table, *paragraphs]) + "\n"


def _escaped(cell: str) -> str:
    return " ".join(cell.replace("|", "&#124;").split())
