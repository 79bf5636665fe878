"""Medians, their non-parametric intervals, and percentiles.

Times are summarised as times; a rate is derived from the summary of the times, so that no rate is
ever averaged (T. Hoefler, R. Belli, "Scientific benchmarking of parallel computing systems",
SC15, rules 3 to 5).
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from cluster.analysis.bounds import Route, judged
from cluster.errors import ParseError
from cluster.model import Definition, Measurement, Scalar, Summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

LEVEL = 0.95
ENOUGH_VALUES = 20  # for a series to be called converged
NOWHERE = Route()
PRECISE = 0.025  # half of the interval over the median, to be called converged


def median_interval_ranks(n: int, level: float = LEVEL) -> tuple[int, int] | None:
    """Find the narrowest pair of order statistics that encloses the median.

    The number of values below the median is binomial with p = 1/2, so the ranks l < u enclose it
    with probability P(l <= B <= u - 1): terms are added from the middle outwards, the larger
    first, until the level is reached. No distribution of the values is assumed.

    Args:
        n: how many values.
        level: the probability wanted.

    Returns:
        The two ranks, counted from 1; none if even the extremes do not reach the level (n < 6 for
        95 %).

    """
    low = high = n // 2
    sum_ = _half(n, low) if n > 1 else 0.0
    while sum_ < level:
        below = _half(n, low - 1) if low > 1 else 0.0
        above = _half(n, high + 1) if high < n - 1 else 0.0
        if below == above == 0.0:
            return None
        if below > above:
            low, sum_ = low - 1, sum_ + below
        else:
            high, sum_ = high + 1, sum_ + above
    return low, high + 1


def _half(n: int, k: int) -> float:
    """Give the binomial probability of k out of n at p = 1/2."""
    log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(log - n * math.log(2))


def median_interval(ordered: Sequence[float] | NDArray[np.float64]) -> tuple[float, float] | None:
    """Give the 95 % confidence interval of the median.

    Args:
        ordered: the values, sorted.

    Returns:
        Its ends, or none for fewer than 6 values.

    """
    ranks = median_interval_ranks(len(ordered))
    if ranks is None:
        return None
    return float(ordered[ranks[0] - 1]), float(ordered[ranks[1] - 1])


def is_precise(values: Sequence[float] | NDArray[np.float64]) -> bool:
    """Tell whether a series says enough: the rule by which an adaptive run stops.

    Args:
        values: in any order.

    Returns:
        Whether there are at least 20, and half of the median's interval is at most 2.5 % of it.

    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    return _is_precise(ordered)


def _is_precise(ordered: NDArray[np.float64]) -> bool:
    interval = median_interval(ordered)
    if interval is None or len(ordered) < ENOUGH_VALUES:
        return False
    return (interval[1] - interval[0]) / 2 <= PRECISE * float(np.median(ordered))


def summarize(
    measurements: Iterable[Measurement],
    definitions: Iterable[Definition],
    route: Route = NOWHERE,
) -> tuple[Summary, ...]:
    """Say what the values say, one summary per metric, point and series.

    Args:
        measurements: in any order.
        definitions: of their metrics.
        route: that the bytes took; nothing bounds them if it is not known.

    Returns:
        The summaries, by the order of the definitions, then by their points.

    Raises:
        ParseError: a measurement's definition is not among the definitions.

    """
    known = {definition.id: (order, definition) for order, definition in enumerate(definitions)}
    keyed = sorted(
        ((_group(m, known), m) for m in measurements if m.values), key=lambda pair: pair[0]
    )
    return tuple(
        _summary(known[key[1]][1], [m for _, m in group], route)
        for key, group in groupby(keyed, key=lambda pair: pair[0])
    )


def _group(
    measurement: Measurement, known: dict[str, tuple[int, Definition]]
) -> tuple[int, str, tuple[tuple[str, float, str], ...], int]:
    try:
        order, definition = known[measurement.definition]
    except KeyError:
        raise ParseError(
            f"The definition {measurement.definition} of the metric {measurement.metric} is not "
            "in the run."
        ) from None
    point = tuple((key, *_sortable(value)) for key, value in sorted(measurement.params.items()))
    rank = measurement.rank if definition.aggregation == "each rank" else -1
    return order, definition.id, point, rank


def _sortable(value: Scalar) -> tuple[float, str]:
    return (0.0, value) if isinstance(value, str) else (float(value), "")


def _summary(definition: Definition, measurements: list[Measurement], route: Route) -> Summary:
    ordered = np.sort(_series(definition, measurements))
    first = measurements[0]
    params = dict(first.params)
    if definition.aggregation == "each rank":
        params["rank"] = first.rank
    interval = median_interval(ordered)
    p5, p95, p99 = (float(p) for p in np.percentile(ordered, (5, 95, 99)))
    summary = Summary(
        metric=definition.metric,
        unit=definition.unit,
        better=definition.better,
        params=params,
        n=len(ordered),
        median=float(np.median(ordered)),
        ci=interval,
        p5=p5,
        p95=p95,
        p99=p99,
        converged=_is_precise(ordered),
        complete=all(m.complete for m in measurements),
    )
    if first.unit == "s" and definition.unit == "B/s":
        slow = float(np.percentile(ordered, 1))
        summary = _as_rate(summary, first.bytes, p1_time=slow)
    return judged(summary, definition, first.bytes, route)


def _series(definition: Definition, measurements: list[Measurement]) -> NDArray[np.float64]:
    columns = [np.asarray(m.values, dtype=np.float64) for m in measurements]
    if definition.aggregation == "slowest rank":
        shortest = min(len(column) for column in columns)  # a stopped run may differ by one
        slowest: NDArray[np.float64] = np.max([column[:shortest] for column in columns], axis=0)
        return slowest
    return np.concatenate(columns)


def _as_rate(times: Summary, size: int, *, p1_time: float) -> Summary:
    """Turn a summary of times into one of rates: the slowest times are the lowest rates."""
    return Summary(
        metric=times.metric,
        unit=times.unit,
        better=times.better,
        params=times.params,
        n=times.n,
        median=_rate(size, times.median),
        ci=None if times.ci is None else (_rate(size, times.ci[1]), _rate(size, times.ci[0])),
        p5=_rate(size, times.p95),
        p95=_rate(size, times.p5),
        p99=_rate(size, p1_time),
        converged=times.converged,
        complete=times.complete,
    )


def _rate(size: int, seconds: float) -> float:
    return size / seconds if seconds > 0 else math.inf  # shorter than the clock can tell
