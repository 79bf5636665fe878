"""Raw values of several runs as named series, for a plot of their distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.model.measurements import Measurement, Summary
from cluster.core.model.value import Value
from cluster.core.units import format_point

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_SERIES = 8  # of a plot


class RunValues(Value, frozen=True, kw_only=True):
    """The values of one run."""

    name: str
    measurements: tuple[Measurement, ...]
    summaries: tuple[Summary, ...]


class RawSeries(Value, frozen=True, kw_only=True):
    """The raw values of one metric."""

    title: str
    unit: str
    values: dict[str, list[float]]
    bounds: dict[str, float]  # of the series that have one, in the unit of the values


def metrics(runs: Sequence[RunValues]) -> list[str]:
    """Name the metrics that have values."""
    return list(dict.fromkeys(m.metric for run in runs for m in run.measurements if m.values))


def raw_series(runs: Sequence[RunValues], metric: str) -> RawSeries:
    """Collect the values of one of `metrics(runs)`: a series per run, data point and rank.

    It has the first eight series; the title says so if there are more.
    """
    several = len({run.name for run in runs}) > 1
    unit = ""
    values: dict[str, list[float]] = {}
    bounds: dict[str, float] = {}
    for run in runs:
        for m in run.measurements:
            if m.metric != metric or not m.values:
                continue
            unit = unit or m.unit
            words = [run.name if several else "", format_point(m.params), f"rank {m.rank}"]
            label = ", ".join(filter(None, words))
            values.setdefault(label, []).extend(m.values)
            if (bound := _bound(m, run.summaries)) is not None:
                bounds[label] = bound
    shown = dict(list(values.items())[:MOST_SERIES])
    some = f" (the first {len(shown)} of {len(values)} series)" if len(values) > len(shown) else ""
    return RawSeries(title=f"Raw values of {metric}{some}", unit=unit, values=shown, bounds=bounds)


def _bound(of: Measurement, summaries: Sequence[Summary]) -> float | None:
    """Return the bound in the unit of the raw values: times, where a summary may be a rate."""
    point = {**of.params, "rank": of.rank}.items()
    for s in summaries:
        if s.metric == of.metric and s.bound and s.params.items() <= point:
            return s.bound if s.unit == of.unit else of.bytes / s.bound
    return None
