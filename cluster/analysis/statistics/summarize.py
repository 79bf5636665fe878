"""From measurements to summaries: medians with their intervals, percentiles, shapes and bounds.

Times are summarised as times; a rate is derived from the summary of the times, so that no rate is
ever averaged (T. Hoefler, R. Belli, "Scientific benchmarking of parallel computing systems",
SC15, rules 3 to 5).
"""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec
import numpy as np

from cluster.analysis.limits.link import Route, share, with_link_bound
from cluster.analysis.statistics.distribution import FIRST_PERCENTILE, middle, quantile, statistics
from cluster.core.errors import ParseError
from cluster.core.model.results.measurements import Definition, Measurement, Summary

NOWHERE = Route()
TIME = "s"  # the unit of the values of any rate that is measured by times


def summarize(
    measurements: Iterable[Measurement], definitions: Iterable[Definition], route: Route = NOWHERE
) -> tuple[Summary, ...]:
    """Summarise values, one summary per metric, point and series, in the order of definitions.

    Without the route of the bytes, there are no bounds. A measurement whose definition is missing,
    or has another unit, raises a ParseError.
    """
    by_id = {definition.id: (order, definition) for order, definition in enumerate(definitions)}
    pairs = sorted(
        ((_group(m, by_id), m) for m in measurements if m.values), key=lambda pair: pair[0]
    )
    return tuple(
        _summary(by_id[key[1]][1], [m for _, m in group], route)
        for key, group in groupby(pairs, key=lambda pair: pair[0])
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
    point = tuple(  # words after numbers, so that both can be sorted
        (key, 0.0, value) if isinstance(value, str) else (key, float(value), "")
        for key, value in sorted(measurement.params.items())
    )
    rank = measurement.rank if definition.aggregation == "each rank" else -1
    return order, measurement.definition, point, rank


def _summary(definition: Definition, measurements: list[Measurement], route: Route) -> Summary:
    columns = [np.asarray(m.values, dtype=np.float64) for m in measurements]
    series = np.concatenate(columns)
    if definition.aggregation == "slowest rank":
        shortest = min(len(column) for column in columns)  # a stopped run may differ by one
        series = np.max([column[:shortest] for column in columns], axis=0)
    values = np.sort(series)
    first = measurements[0]
    params = dict(first.params)
    if definition.aggregation == "each rank":
        params["rank"] = first.rank
    slow = first.unit == "s" or definition.better == "lower"  # high values are slow ones
    summary = Summary(
        metric=definition.metric,
        definition=first.definition,
        unit=definition.unit,
        better=definition.better,
        params=params,
        complete=all(m.complete for m in measurements),
        **statistics(series, values, slow=slow),
    )
    if first.unit == "s" and definition.unit == "B/s":
        summary = _as_rate(summary, first.bytes, p1_time=quantile(values, FIRST_PERCENTILE))
    return with_link_bound(summary, definition, first.bytes, route)


def pool_medians(launches: Sequence[Summary]) -> Summary:
    """Summarise launches of one metric at one point by their medians; `n` counts launches."""
    first = launches[0]
    series = np.array([summary.median for summary in launches])
    bounds = [summary.bound for summary in launches if summary.bound is not None]
    bound = middle(np.sort(bounds)) if len(bounds) == len(launches) else None
    complete = all(summary.complete for summary in launches)
    figures = statistics(series, np.sort(series), slow=first.better == "lower")
    part = None if bound is None else share(figures["median"], bound, first.unit)
    return msgspec.structs.replace(first, complete=complete, bound=bound, share=part, **figures)


def pool_launches(launches: Sequence[Sequence[Summary]]) -> tuple[Summary, ...]:
    """Summarise launches of one condition, point by point, by their medians; a single one stays."""
    if len(launches) == 1:
        return tuple(launches[0])
    groups: dict[tuple[object, ...], list[Summary]] = {}
    for summary in (member for launch in launches for member in launch):
        key = (summary.metric, summary.definition, *sorted(summary.params.items()))
        groups.setdefault(key, []).append(summary)
    return tuple(pool_medians(group) for group in groups.values())


def _as_rate(times: Summary, size: int, *, p1_time: float) -> Summary:
    """Turn a summary of times into one of rates: the slowest times are the lowest rates."""
    shape = times.shape and msgspec.structs.replace(
        times.shape,
        minimum=_rate(size, times.shape.maximum),
        p25=_rate(size, times.shape.p75),
        p75=_rate(size, times.shape.p25),
        maximum=_rate(size, times.shape.minimum),
        drift=None if times.shape.drift is None else 1 / (1 + times.shape.drift) - 1,
        modes=tuple(_rate(size, mode) for mode in reversed(times.shape.modes)),
    )
    return msgspec.structs.replace(
        times,
        median=_rate(size, times.median),
        ci=None if times.ci is None else (_rate(size, times.ci[1]), _rate(size, times.ci[0])),
        p5=_rate(size, times.p95),
        p95=_rate(size, times.p5),
        p99=_rate(size, p1_time),
        shape=shape,
    )


def _rate(size: int, seconds: float) -> float:
    return size / seconds if seconds > 0 else math.inf  # shorter than the clock can tell
