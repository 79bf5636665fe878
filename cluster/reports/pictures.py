"""Pictures of runs, for `cluster plot` and `Run.plot`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, get_args

from cluster.core.errors import SpecError
from cluster.reports import page, plots, raw_series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.measurements import Measurement, Summary
    from cluster.reports.page import ReportRun
    from cluster.reports.plots import Curve, Format, Picture

FORMATS: tuple[Format, ...] = get_args(plots.Format)


def file_format(path: str) -> Format:
    """Find the format of a picture from its file's name (SpecError)."""
    for form in FORMATS:
        if path.endswith(f".{form}"):
            return form
    raise SpecError(
        f"{path} is none of {', '.join(f'.{form}' for form in FORMATS)}.",
        remedy="Name the file plot.png, for example.",
    )


def sweep_picture(
    shown: Sequence[ReportRun],
    metric: str | None,
    form: Format = "svg",
    *,
    given_bound: float | None = None,
) -> Picture:
    """Draw a metric of runs over message sizes (SpecError: it was not measured over several).

    `given_bound` is the bandwidth that the user gave as the bound, in bytes per second.
    """
    return plots.sweep(sweep_curves(shown, metric), form, given_bound=given_bound)


def sweep_curves(shown: Sequence[ReportRun], metric: str | None) -> Sequence[Curve]:
    """Choose the curves of one metric (SpecError: it was not measured over several sizes)."""
    curves = page.curves(shown)
    return curves[_chosen(metric, [name for name in curves if _can_be_drawn(curves[name])])]


def _can_be_drawn(curves: Sequence[Curve]) -> bool:
    return any(0 < s.median < math.inf for curve in curves for s in curve.summaries)


def distribution_picture(
    runs: Sequence[tuple[str, tuple[Measurement, ...], tuple[Summary, ...]]],
    metric: str | None,
    form: Format = "svg",
) -> Picture:
    """Draw how the raw values of a metric are distributed (SpecError: there are none)."""
    known = [
        raw_series.RunValues(name=name, measurements=measurements, summaries=summaries)
        for name, measurements, summaries in runs
    ]
    shown = raw_series.raw_series(known, _chosen(metric, raw_series.metrics(known)))
    return plots.distribution(shown.title, shown.unit, shown.values, shown.bounds, form)


def _chosen(metric: str | None, known: Sequence[str]) -> str:
    if not known or (metric is not None and metric not in known):
        raise SpecError(
            f"There is no {metric or 'metric'} to draw.",
            remedy=f"There are: {', '.join(known)}" if known else "It has no values to draw.",
        )
    return metric or known[0]
