"""A page for any browser, also on a phone: one file that loads nothing."""

from collections.abc import Sequence

from cluster.core.model.results.measurements import Summary
from cluster.reports.formats import Report
from cluster.reports.html_page import Page, PageSection, render_page
from cluster.reports.table import summaries_table


class Html(Report):
    """A page with one table; `cluster report` makes one with pictures."""

    def render(self, summaries: Sequence[Summary], *, notes: Sequence[str] = ()) -> str:
        table = summaries_table(summaries, title="Medians", notes=notes)
        verdict = f"{len(summaries)} series" if summaries else "No values were measured."
        section = PageSection(title="Results", tables=(table,))
        return render_page(Page(title="cluster", verdicts=(verdict,), sections=(section,)))
