"""Several launches of one command: their spread, why they differ, and whether one became slower.

A launch is the unit: each starts new ranks, and ten thousand values of one launch say little
about the next (T. Hoefler, R. Belli, "Scientific benchmarking of parallel computing systems",
SC15, rule 5; A. Georges et al., "Statistically rigorous Java performance evaluation", OOPSLA 2007).
"""

from collections.abc import Sequence
from statistics import median
from typing import Literal

from cluster.core.model.hosts import Facts
from cluster.core.model.results.measurements import Measurement, Summary
from cluster.core.model.value import Value

ENOUGH_FOR_INTERVAL = 6  # launches: the fewest values whose extremes enclose the median at 95 %
UNSTEADY = 0.25  # spread of the launches' medians, from which there is a note about it
Cause = Literal["shared_cores", "virtual_cores", "busy"]


def spread(pool: Summary) -> float | None:
    """Return the highest minus the lowest median of a result of `pool_launches`.

    It is relative to the median over launches; None of one launch, or if the median is not above 0.
    """
    if pool.shape is None or pool.n < 2 or not pool.median > 0:  # noqa: PLR2004 - two differ
        return None
    return (pool.shape.maximum - pool.shape.minimum) / pool.median


def unsteady(summaries: Sequence[Summary]) -> tuple[Summary, ...]:
    """Return the results of `pool_launches` that differ from launch to launch, the worst first."""
    points = [s for s in summaries if s.shape is not None and (spread(s) or 0.0) > UNSTEADY]
    return tuple(sorted(points, key=lambda summary: -(spread(summary) or 0.0)))


def likeliest_cause(ranks: int, facts: Sequence[Facts]) -> Cause:
    """Return the likeliest reason why launches of one command differ."""
    cores = fewest_cores(facts)
    if cores and ranks > cores:
        return "shared_cores"
    return "virtual_cores" if any(host.tuning.virtual for host in facts) else "busy"


def fewest_cores(facts: Sequence[Facts]) -> int:
    """Return the usable cores of the host with the fewest; 0 if that is not known."""
    return min((host.usable_cores for host in facts), default=0)


SLOWER = 4.0  # times as long: repetitions normally vary far less
ENOUGH = 3  # values that are needed before the slowdown


class Slowdown(Value, frozen=True, kw_only=True):
    """The last repetitions took much longer than those before, of the same series or another."""

    series: Measurement
    ratio: float
    count: int = 0  # how many of the series were slow; 0 if all were
    before: Measurement | None = None  # the series that it was compared with


def find_slowdown(measurements: Sequence[Measurement]) -> Slowdown | None:
    """Return how the last series of a run that was ended had become slower; None if it had not.

    The last repetitions are compared with those before. If all of a series are slow, they are
    compared with the series before it, in proportion to the bytes that are moved.
    """
    numbers = [n for n, m in enumerate(measurements) if not m.complete and m.unit == "s"]
    for number in numbers:
        series = measurements[number]
        slowdown = _within_series(series) or _after_series(series, measurements[:number])
        if slowdown is not None:
            return slowdown
    return None


def _within_series(series: Measurement) -> Slowdown | None:
    usual = median(sorted(series.values)[: max(ENOUGH, len(series.values) // 4)])
    slow = 0
    for value in reversed(series.values):
        if value < SLOWER * usual:
            break
        slow += 1
    before = series.values[: len(series.values) - slow]
    if not slow or len(before) < ENOUGH:
        return None
    ratio = median(series.values[-slow:]) / median(before)
    return Slowdown(series=series, ratio=ratio, count=slow)


def _after_series(series: Measurement, earlier: Sequence[Measurement]) -> Slowdown | None:
    kind = series.metric, series.rank
    of_kind = [m for m in earlier if m.complete and m.values and (m.metric, m.rank) == kind]
    if not of_kind:
        return None
    last = of_kind[-1]
    growth = max(1.0, series.bytes / last.bytes) if last.bytes and series.bytes else 1.0
    ratio = median(series.values) / (median(last.values) * growth)
    return None if ratio < SLOWER else Slowdown(series=series, ratio=ratio, before=last)
