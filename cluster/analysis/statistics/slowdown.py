"""Whether a run that reached its time limit had become slower, judged by its values."""

from collections.abc import Sequence
from statistics import median

from cluster.core.model.measurements import Measurement
from cluster.core.model.value import Value

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
    unfinished = [n for n, m in enumerate(measurements) if not m.complete and m.unit == "s"]
    for number in unfinished:
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
