"""Runs, verdicts and comparisons as pieces of HTML, as a notebook shows them below a cell."""

from collections.abc import Sequence
from html import escape

from cluster.analysis.statistics.compare import Comparison
from cluster.core.model.measurements import Summary
from cluster.reports.html_page import next_html, table_html
from cluster.reports.table import Table, summaries_table
from cluster.reports.tables import comparison_tables
from cluster.reports.words.verdict import Answer

COLOURS = {"normal": "#2e9e4f", "low": "#c77700", "impossible": "#d0453b", "failed": "#d0453b"}
"""Colours of verdicts, readable on white and on black; other verdicts have no colour."""
MOST_ROWS = 60  # of a table in a notebook


def judgement_html(judged: Answer) -> str:
    colour = COLOURS.get(judged.word, "inherit")
    word = f'<b style="color: {colour}">{judged.word.upper()}</b>'
    next_ = f" {next_html(judged.next_step)}" if judged.next_step else ""
    return f"<p>{word} {escape(judged.answer)}.{next_}</p>"


def run_html(name: str, judged: Answer, summaries: Sequence[Summary], notes: Sequence[str]) -> str:
    first = summaries[:MOST_ROWS]
    more = len(summaries) - len(first)
    rest = [f"And {more} more: run.summary() has all."] if more else []
    table = summaries_table(first, title=name, notes=(*notes, *rest))
    return judgement_html(judged) + tables_html([table])


def comparison_html(comparison: Comparison) -> str:
    differing, cells = comparison_tables(comparison)
    return tables_html([cells, differing])


def tables_html(tables: Sequence[Table]) -> str:
    return "\n".join(map(table_html, tables))
