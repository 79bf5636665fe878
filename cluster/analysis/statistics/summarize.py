"""From measurements to summaries: medians with their intervals, percentiles, shapes and bounds.

Times are summarised as times; a rate is derived from the summary of the times, so that no rate is
ever averaged (T. Hoefler, R. Belli, "Scientific benchmarking of parallel computing systems",
SC15, rules 3 to 5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from cluster.analysis.limits.link import Route, share, with_link_bound
from cluster.analysis.statistics.distribution import has_converged, quantile, shape
from cluster.analysis.statistics.median import median_interval, middle
from cluster.core.errors import ParseError
from cluster.core.model.measurements import Definition, Distribution, Measurement, Summary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cluster.core.model.value import Scalar

NOWHERE = Route()
TIME = "s"  # the unit of the values of any rate that is measured by times
FIRST_PERCENTILE = 0.01


def summarize(
    measurements: Iterable[Measurement], definitions: Iterable[Definition], route: Route = NOWHERE
) -> tuple[Summary, ...]:
    """Summarise values, one summary per metric, point and series, in the order of definitions.

    Without the route of the bytes, there are no bounds. A measurement whose definition is missing,
    or has another unit, raises a ParseError.
    """
    by_id = {definition.id: (order, definition) for order, definition in enumerate(definitions)}
    keyed = sorted(
        ((_group(m, by_id), m) for m in measurements if m.values), key=lambda pair: pair[0]
    )
    return tuple(
        _summary(by_id[key[1]][1], [m for _, m in group], route)
        for key, group in groupby(keyed, key=lambda pair: pair[0])
    )


def _group(
    measurement: Measurement, by_id: dict[str, tuple[int, Definition]]
) -> tuple[int, str, tuple[tuple[str, float, str], ...], int]:
    try:
        order, definition = by_id[measurement.definition]
    except KeyError:
        raise ParseError(
            f"The definition {measurement.definition} of the metric {measurement.metric} is not "
            "in the run."
        ) from None
    if measurement.unit not in (definition.unit, TIME):
        raise ParseError(
            f"{measurement.metric} has values in {measurement.unit!r}; by its definition they are "
            f"in {definition.unit!r}, or times."
        )
    point = tuple((key, *_sortable(value)) for key, value in sorted(measurement.params.items()))
    rank = measurement.rank if definition.aggregation == "each rank" else -1
    return order, definition.id, point, rank


def _sortable(value: Scalar) -> tuple[float, str]:
    return (0.0, value) if isinstance(value, str) else (float(value), "")


def _summary(definition: Definition, measurements: list[Measurement], route: Route) -> Summary:
    series = _series(definition, measurements)
    ordered = np.sort(series)
    first = measurements[0]
    params = dict(first.params)
    if definition.aggregation == "each rank":
        params["rank"] = first.rank
    slow = first.unit == "s" or definition.better == "lower"  # high values are slow ones
    summarized = partial(
        Summary,
        metric=definition.metric,
        definition=definition.id,
        unit=definition.unit,
        better=definition.better,
        params=params,
        complete=all(m.complete for m in measurements),
    )
    summary = _with_statistics(summarized, series, ordered, slow=slow)
    if first.unit == "s" and definition.unit == "B/s":
        summary = _as_rate(summary, first.bytes, p1_time=quantile(ordered, FIRST_PERCENTILE))
    return with_link_bound(summary, definition, first.bytes, route)


def _with_statistics(
    summarized: Callable[..., Summary],
    series: NDArray[np.float64],
    ordered: NDArray[np.float64],
    *,
    slow: bool,
) -> Summary:
    """Add what the values alone decide; the tail are the high values if these are slow."""
    p1, p5, p95, p99 = (quantile(ordered, part) for part in (FIRST_PERCENTILE, 0.05, 0.95, 0.99))
    median = middle(ordered)
    return summarized(
        n=len(ordered),
        median=median,
        ci=median_interval(ordered),
        p5=p5,
        p95=p95,
        p99=p99,
        converged=has_converged(series),
        shape=shape(series, ordered, tail=_ratio(p99, median) if slow else _ratio(median, p1)),
    )


def pool_medians(launches: Sequence[Summary]) -> Summary:
    """Summarise launches of one metric at one point by their medians; `n` counts launches."""
    first = launches[0]
    series = np.array([summary.median for summary in launches])
    bounds = [summary.bound for summary in launches if summary.bound is not None]
    bound = middle(np.sort(bounds)) if len(bounds) == len(launches) else None
    complete = all(summary.complete for summary in launches)
    pooled = partial(msgspec.structs.replace, first, complete=complete, bound=bound)
    summary = _with_statistics(pooled, series, np.sort(series), slow=first.better == "lower")
    part = None if bound is None else share(summary.median, bound, first.unit)
    return msgspec.structs.replace(summary, share=part)


def pool_launches(launches: Sequence[Sequence[Summary]]) -> tuple[Summary, ...]:
    """Summarise launches of one condition, point by point, by their medians; a single one stays."""
    if len(launches) == 1:
        return tuple(launches[0])
    groups: dict[tuple[object, ...], list[Summary]] = {}
    for summary in (member for launch in launches for member in launch):
        key = (summary.metric, summary.definition, *sorted(summary.params.items()))
        groups.setdefault(key, []).append(summary)
    return tuple(pool_medians(group) for group in groups.values())


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else 1.0


def _series(definition: Definition, measurements: list[Measurement]) -> NDArray[np.float64]:
    columns = [np.asarray(m.values, dtype=np.float64) for m in measurements]
    if definition.aggregation == "slowest rank":
        shortest = min(len(column) for column in columns)  # a stopped run may differ by one
        slowest: NDArray[np.float64] = np.max([column[:shortest] for column in columns], axis=0)
        return slowest
    return np.concatenate(columns)


def _as_rate(times: Summary, size: int, *, p1_time: float) -> Summary:
    """Turn a summary of times into one of rates: the slowest times are the lowest rates."""
    return msgspec.structs.replace(
        times,
        median=_rate(size, times.median),
        ci=None if times.ci is None else (_rate(size, times.ci[1]), _rate(size, times.ci[0])),
        p5=_rate(size, times.p95),
        p95=_rate(size, times.p5),
        p99=_rate(size, p1_time),
        shape=None if times.shape is None else _shape_as_rate(times.shape, size),
    )


def _shape_as_rate(times: Distribution, size: int) -> Distribution:
    return msgspec.structs.replace(
        times,
        minimum=_rate(size, times.maximum),
        p25=_rate(size, times.p75),
        p75=_rate(size, times.p25),
        maximum=_rate(size, times.minimum),
        drift=None if times.drift is None else 1 / (1 + times.drift) - 1,
        modes=tuple(_rate(size, mode) for mode in reversed(times.modes)),
    )


def _rate(size: int, seconds: float) -> float:
    return size / seconds if seconds > 0 else math.inf  # shorter than the clock can tell
