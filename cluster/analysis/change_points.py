"""When did a series of launches change? Change points of medians, and an alarm for the newest.

Binary segmentation (A. J. Scott and M. Knott, Biometrics 30, 1974) over the largest standardised
difference of means. The variance of a mean is that of an AR(1) process, because launches of the
same day resemble each other. Values are logarithms, clipped at outliers: one spike is no change.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from cluster.core.model.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

State = Literal["steady", "watch", "alarm"]
LEAST = 8  # values that a baseline needs
SEGMENT = 3  # values that a segment between two changes needs
NEWEST = 2  # values that the newest segment needs
THRESHOLD = 4.0  # standard errors: 8 of 1,000 stationary series of 60 values exceed that
SMALLEST = 0.02  # of the baseline: smaller changes are ignored
SHARED = 1 / 3  # of the largest change: each of the newest values must have moved by as much
CLIPPED = 4.0  # robust standard deviations of the others, beyond which the newest value is watched
SPIKE = 3.0  # standard deviations from its neighbours, at which a value is clipped
MAD = 1.4826  # the standard deviation of normal values over their median absolute deviation
CORRELATED = 0.95  # the highest correlation of a launch with the one before that is assumed


class ChangePoint(Value, frozen=True, kw_only=True):
    """A place at which a series changed.

    Args:
        at: the index of the first value after the change.
        before: the median of the segment before it.
        after: the median of the segment after it.
        errors: the difference, in standard errors.
        ci: the 95 % interval of the change, relative to the value before.

    """

    at: int
    before: float
    after: float
    errors: float
    ci: tuple[float, float]

    @property
    def change(self) -> float:
        """The change, relative to the value before."""
        return self.after / self.before - 1


def change_points(values: Sequence[float]) -> tuple[ChangePoint, ...]:
    """Find the changes of a series.

    Args:
        values: medians of launches, the oldest first; all above 0.

    Returns:
        The changes, the oldest first; none if the series is too short.

    """
    logs = np.log(np.asarray(values, dtype=np.float64))
    places = sorted(_split(logs, 0, len(logs)))
    ends = [0, *(at for at, _, _ in places), len(logs)]
    found = []
    for (at, errors, error), start, end in zip(places, ends, ends[2:], strict=False):
        before, after = float(np.median(logs[start:at])), float(np.median(logs[at:end]))
        low, high = (math.expm1(after - before + sign * 1.96 * error) for sign in (-1, 1))
        point = ChangePoint(
            at=at, before=math.exp(before), after=math.exp(after), errors=errors, ci=(low, high)
        )
        if abs(point.change) >= SMALLEST:
            found.append(point)
    return tuple(found)


def state(values: Sequence[float]) -> State:
    """Tell whether the newest values changed: one changed value is watched, two are an alarm.

    Args:
        values: medians of launches, the oldest first; all above 0.

    Returns:
        `alarm` if a change begins within the newest three values, `watch` if only the newest value
        is out of the range of the others, else `steady`.

    """
    recent = [p for p in change_points(values) if p.at >= len(values) - SEGMENT]
    if recent:
        return "alarm"
    if len(values) <= LEAST:
        return "steady"
    logs = np.log(np.asarray(values, dtype=np.float64))
    center, spread = _robust(logs[:-1])
    far = abs(float(logs[-1]) - center)
    return "watch" if far > max(CLIPPED * spread, SMALLEST) else "steady"


def _split(logs: Floats, start: int, end: int) -> Iterator[tuple[int, float, float]]:
    """Split a segment at its largest change, and each part again."""
    if end - start < LEAST:
        return
    newest = NEWEST if end == len(logs) else SEGMENT
    at, errors, error = _largest_difference(_clipped(logs[start:end]), newest)
    if errors < THRESHOLD:
        return
    if newest == NEWEST and not _all_moved(logs, start + at):
        yield from _split(logs[:-1], start, end - 1)
        return
    yield start + at, errors, error
    yield from _split(logs, start, start + at)
    yield from _split(logs, start + at, end)


def _all_moved(logs: Floats, at: int) -> bool:
    """Tell whether each of the few newest values moved: a single one may be a spike."""
    if len(logs) - at > SEGMENT:
        return True
    moved = logs[at:] - np.median(logs[:at])
    largest = moved[np.argmax(np.abs(moved))]
    return bool(np.all(moved / largest > SHARED))


def _largest_difference(logs: Floats, newest: int) -> tuple[int, float, float]:
    """Give the place of the largest standardised difference of means, and its standard error."""
    count = len(logs)
    sums = np.cumsum(logs)
    sizes = np.arange(SEGMENT, count - newest + 1)
    left = sums[sizes - 1] / sizes
    right = (sums[-1] - sums[sizes - 1]) / (count - sizes)
    distance = np.abs(right - left)
    best = int(np.argmax(distance / np.sqrt(1 / sizes + 1 / (count - sizes))))
    at = int(sizes[best])
    rest = np.concatenate((logs[:at] - left[best], logs[at:] - right[best]))
    variance = float(rest @ rest) / (count - 2)
    if variance <= 0:
        return at, math.inf if distance[best] > 0 else 0.0, 0.0
    correlation = _autocorrelation(rest, variance)
    errors = np.sqrt(
        variance
        * (_variance_of_mean(sizes, correlation) + _variance_of_mean(count - sizes, correlation))
    )
    best = int(np.argmax(distance / errors))
    return int(sizes[best]), float(distance[best] / errors[best]), float(errors[best])


def _autocorrelation(rest: Floats, variance: float) -> float:
    """Estimate the correlation of a value with the one before, corrected for short series."""
    count = len(rest)
    found = float(rest[1:] @ rest[:-1]) / (count - 1) / variance
    corrected = found + (1 + 4 * max(found, 0.0)) / count
    error = 1 / math.sqrt(count)
    if corrected > error:
        corrected += error  # if launches resemble each other, assume the higher correlation
    return min(max(corrected, 0.0), CORRELATED)


def _variance_of_mean(sizes: NDArray[np.int_], correlation: float) -> Floats:
    """Give the variance of a mean of an AR(1) process, relative to that of a value."""
    whole: Floats = (1 + correlation) / (1 - correlation) - 2 * correlation * (
        1 - correlation**sizes
    ) / (sizes * (1 - correlation) ** 2)
    return whole / sizes


def _robust(logs: Floats) -> tuple[float, float]:
    center = float(np.median(logs))
    return center, MAD * float(np.median(np.abs(logs - center)))


def _clipped(logs: Floats) -> Floats:
    """Clip single spikes; a value whose neighbours are similar is not a spike."""
    count = len(logs)
    padded = np.concatenate((logs[1:2], logs, logs[-2:-1]))
    middle = np.median(np.stack((padded[:count], padded[1:-1], padded[2:])), axis=0)
    reach = SPIKE * float(np.std(logs - middle))
    return np.clip(logs, middle - reach, middle + reach)
