"""Pictures of runs, for `cluster plot` and `Run.plot`."""

from collections.abc import Sequence
from typing import get_args

from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Measurement, Summary
from cluster.core.text.units import format_point
from cluster.reports import page, plots
from cluster.reports.page import ReportRun
from cluster.reports.plots import Curve, Format, Picture

FORMATS: tuple[Format, ...] = get_args(plots.Format)
MOST_SERIES = 8  # of a plot of raw values


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
    runs: Sequence[ReportRun],
    metric: str | None,
    form: Format = "svg",
    *,
    given_bound: float | None = None,
) -> Picture:
    """Draw a metric over sizes; `given_bound` is the user's, in B/s (SpecError: none)."""
    return plots.sweep(sweep_curves(runs, metric), form, given_bound=given_bound)


def sweep_curves(runs: Sequence[ReportRun], metric: str | None) -> Sequence[Curve]:
    """Choose the curves of one metric (SpecError: it was not measured over several sizes)."""
    curves = page.curves(runs)
    drawable = [name for name in curves if any(curve.points for curve in curves[name])]
    return curves[_choose_metric(metric, drawable)]


def distribution_picture(
    runs: Sequence[tuple[str, tuple[Measurement, ...], tuple[Summary, ...]]],
    metric: str | None,
    form: Format = "svg",
) -> Picture:
    """Draw a metric's raw values: the first eight of run, point and rank (SpecError)."""
    metrics = dict.fromkeys(
        m.metric for _, measurements, _ in runs for m in measurements if m.values
    )
    metric = _choose_metric(metric, list(metrics))
    several = len({name for name, _, _ in runs}) > 1
    values: dict[str, list[float]] = {}
    bounds: dict[str, float] = {}
    units = []
    for name, measurements, summaries in runs:
        for m in measurements:
            if m.metric != metric or not m.values:
                continue
            units.append(m.unit)
            words = [name if several else "", format_point(m.params), f"rank {m.rank}"]
            label = ", ".join(filter(None, words))
            values.setdefault(label, []).extend(m.values)
            if (bound := _bound(m, summaries)) is not None:
                bounds[label] = bound
    series = dict(list(values.items())[:MOST_SERIES])
    remark = (
        f" (the first {len(series)} of {len(values)} series)" if len(values) > len(series) else ""
    )
    return plots.distribution(f"Raw values of {metric}{remark}", units[0], series, bounds, form)


def _bound(measurement: Measurement, summaries: Sequence[Summary]) -> float | None:
    """Return the bound in the unit of the raw values: times, where a summary may be a rate."""
    point = {**measurement.params, "rank": measurement.rank}.items()
    for s in summaries:
        if s.metric == measurement.metric and s.bound and s.params.items() <= point:
            return s.bound if s.unit == measurement.unit else measurement.bytes / s.bound
    return None


def _choose_metric(metric: str | None, metrics: Sequence[str]) -> str:
    if not metrics or (metric is not None and metric not in metrics):
        raise SpecError(
            f"There is no {metric or 'metric'} to draw.",
            remedy=f"There are: {', '.join(metrics)}" if metrics else "It has no values to draw.",
        )
    return metric or metrics[0]
