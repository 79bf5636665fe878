"""Comma-separated values in base units, for other programs."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from cluster.reports.formats import Report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.measurements import Distribution, Summary

NUMBERS = (
    *("n", "median", "ci_low", "ci_high", "p5", "p95", "p99", "converged", "complete"),
    *("bound", "share"),
    *("minimum", "p25", "p75", "maximum", "outliers", "drift", "drifts", "modes", "tail"),
)
SHAPELESS = ("",) * 9


class Csv(Report):
    """A column per parameter and per statistic; seconds, bytes and bytes per second."""

    def render(self, summaries: Sequence[Summary], *, notes: Sequence[str] = ()) -> str:
        """Write a row per summary, without the notes: the format has no place for them."""
        params = list(dict.fromkeys(key for summary in summaries for key in summary.params))
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["metric", "unit", *params, *NUMBERS])
        writer.writerows(_cells(summary, params) for summary in summaries)
        return out.getvalue()


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
