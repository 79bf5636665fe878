"""Comma-separated values in base units, for other programs."""

import csv
import io
import re
from collections.abc import Sequence

from cluster.core.model.results.measurements import Distribution, Summary
from cluster.reports.formats import Report
from cluster.reports.table import Table

NUMBERS = (
    *("n", "median", "ci_low", "ci_high", "p5", "p95", "p99", "converged", "complete"),
    *("bound", "share"),
    *("minimum", "p25", "p75", "maximum", "outliers", "drift", "drifts", "modes", "tail"),
)
SHAPELESS = ("",) * 9
NUMBER = r"[+-](?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\Z"
FORMULA = re.compile(rf"(?!{NUMBER})[=+\-@\t\r]")


class Csv(Report):
    """A column per parameter and per statistic; seconds, bytes and bytes per second."""

    def render(self, summaries: Sequence[Summary], *, notes: Sequence[str] = ()) -> str:
        """Write a row per summary, without the notes: the format has no place for them."""
        params = list(dict.fromkeys(key for summary in summaries for key in summary.params))
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        rows: list[list[object]] = [
            ["metric", "unit", *params, *NUMBERS],
            *(_cells(s, params) for s in summaries),
        ]
        writer.writerows(map(_as_text, row) for row in rows)
        return out.getvalue()


def table_csv(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows(map(_as_text, row) for row in (table.columns, *table.rows))
    return out.getvalue()


def _as_text(cell: object) -> object:
    """Put a quote before a text that a spreadsheet would run as a formula."""
    if not isinstance(cell, str):
        return cell
    safe = f"'{cell}" if FORMULA.match(cell) else cell
    return safe.replace("\r", " ")  # it would end the row: csv.writer does not quote it


def _cells(summary: Summary, params: list[str]) -> list[object]:
    low, high = summary.ci or ("", "")
    return [
        summary.metric,
        summary.unit,
        *(summary.params.get(key, "") for key in params),
        *(summary.n, summary.median, low, high, summary.p5, summary.p95, summary.p99),
        *(str(summary.converged).lower(), str(summary.complete).lower()),
        *("" if part is None else part for part in (summary.bound, summary.share)),
        *(SHAPELESS if summary.shape is None else _shape(summary.shape)),
    ]


def _shape(shape: Distribution) -> tuple[object, ...]:
    return (
        *(shape.minimum, shape.p25, shape.p75, shape.maximum, shape.outliers),
        *("" if shape.drift is None else shape.drift, str(shape.drifts).lower()),
        *(" ".join(repr(mode) for mode in shape.modes), shape.tail),
    )
