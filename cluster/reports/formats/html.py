"""A page for any browser, also on a phone: one file that loads nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.reports.formats import LEFT, Report, columns, rows
from cluster.reports.html_page import Page, PageSection, render_page
from cluster.reports.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.measurements import Summary


class Html(Report):
    """A page with one table; `cluster report` makes one with pictures."""

    def render(self, summaries: Sequence[Summary], *, notes: Sequence[str] = ()) -> str:
        """Show a row per summary."""
        table = Table(
            title="Medians",
            columns=columns(summaries),
            rows=tuple(rows(summaries)),
            notes=tuple(notes),
            left=LEFT,
        )
        verdict = f"{len(summaries)} series" if summaries else "No values were measured."
        section = PageSection(title="Results", tables=(table,))
        return render_page(Page(title="cluster", verdicts=(verdict,), sections=(section,)))
