"""A table in GitHub's Markdown."""

from collections.abc import Sequence

from cluster.core.model.results.measurements import Summary
from cluster.reports.formats import Report
from cluster.reports.table import Table, summaries_table


class Markdown(Report):
    """A table, and the notes as paragraphs."""

    def render(self, summaries: Sequence[Summary], *, notes: Sequence[str] = ()) -> str:
        table = summaries_table(summaries)
        return "\n".join([*_table(table.columns, table.rows), *_paragraphs(notes)]) + "\n"


def table_markdown(table: Table) -> str:
    """Show any table, with its title above and its notes below."""
    lines = ["", *_table(table.columns, table.rows)] if table.rows else []
    return "\n".join([f"**{_escape(table.title)}**", *lines, *_paragraphs(table.notes)]) + "\n"


def _table(head: Sequence[str], rows_: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows_]
    return [f"| {' | '.join(_escape(cell) for cell in cells)} |" for cells in lines]


def _paragraphs(notes: Sequence[str]) -> list[str]:
    return [line for note in notes for line in ("", f"Note: {note}")]


def _escape(cell: str) -> str:
    return " ".join(cell.replace("|", "&#124;").split())
