"""Whether a run that reached its time limit had become slower, judged by its values."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from cluster.core.units import format_point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.measurements import Measurement

SLOWER = 4.0  # times as long: repetitions normally vary far less
ENOUGH = 3  # values that are needed before the slowdown


def describe_slowdown(measurements: Sequence[Measurement]) -> str:
    """Say whether the last series of a run that was ended had become slower; empty if not.

    The last repetitions are compared with those before. If all of a series are slow, they are
    compared with the series before it, in proportion to the bytes that are moved.
    """
    unfinished = [n for n, m in enumerate(measurements) if not m.complete and m.unit == "s"]
    for number in unfinished:
        series = measurements[number]
        sentence = _slower_within_series(series) or _slower_than_series_before(
            series, measurements[:number]
        )
        if sentence:
            return f"{sentence} A link or a host became slower while it ran."
    return ""


def _slower_within_series(series: Measurement) -> str:
    usual = median(sorted(series.values)[: max(ENOUGH, len(series.values) // 4)])
    slow = 0
    for value in reversed(series.values):
        if value < SLOWER * usual:
            break
        slow += 1
    before = series.values[: len(series.values) - slow]
    if not slow or len(before) < ENOUGH:
        return ""
    ratio = median(series.values[-slow:]) / median(before)
    return (
        f"The last {slow} of {len(series.values)} repetitions of {_name(series)} took "
        f"{ratio:.0f} times as long as those before."
    )


def _slower_than_series_before(series: Measurement, earlier: Sequence[Measurement]) -> str:
    kind = series.metric, series.rank
    same = [m for m in earlier if m.complete and m.values and (m.metric, m.rank) == kind]
    if not same:
        return ""
    last = same[-1]
    growth = max(1.0, series.bytes / last.bytes) if last.bytes and series.bytes else 1.0
    ratio = median(series.values) / (median(last.values) * growth)
    if ratio < SLOWER:
        return ""
    return (
        f"Repetitions of {_name(series)} took {ratio:.0f} times as long as those of {_name(last)} "
        "suggest."
    )


def _name(series: Measurement) -> str:
    return f"{series.metric} {format_point(series.params)}".strip()
