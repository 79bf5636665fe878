"""When did a series of launches change? Change points of medians, and an alarm for the newest.

Binary segmentation (A. J. Scott and M. Knott, Biometrics 30, 1974) over the largest standardised
difference of means; a part without one is searched for a change that was taken back (circular
binary segmentation: A. B. Olshen and others, Biostatistics 5, 2004). The variance of a mean is that
of an AR(1) process, because launches of the same day resemble each other. Values are logarithms,
clipped at outliers: one spike is no change.

The newest values have a test of their own, because a series is looked at after each run, and each
look is a chance of a false alarm. docs/explanation/statistics.md says what that costs.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from cluster.core.model.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

State = Literal["steady", "watch", "alarm"]
LEAST = 8  # values that a baseline needs
SEGMENT = 3  # values that a segment between two changes needs
PROVED = 12  # values that a baseline needs for an alarm: fewer may all be of one mode of two
THRESHOLD = 4.1  # standard errors: 6 of 1,000 stationary series of 60 values exceed that
PASSED = 6.5  # standard errors of a change that was taken back: of 2,000 such series, 2 exceed that
# How many of the newest values changed, and the standard deviations of a normal distribution that
# are an alarm; and what is added, over the number of values in the baseline: a short one says
# little about the modes of a series, and how its neighbours resemble each other.
# `scripts/bench 2 watching` counts the false alarms, with seeds that these were not chosen with.
ALARMS = {2: 3.8, 3: 4.1, 4: 4.25, 5: 4.25, 6: 4.25}
SHORT = 14.0
# Standard deviations, from which the newest values are watched: with 2.75, only 97.8% of steps of 3
# deviations were no longer `steady` after three runs. Chosen with seeds 191011 to 191020.
WATCHED = 2.2
ASSUMED, WEIGHT = 0.5, 10  # the correlation that is assumed, and the number of values it counts for
SMALLEST = 0.02  # of the baseline: smaller changes are ignored
SHARED = 0.36  # of the larger change: each of the newest two must have moved by as much
MIDDLE = 0.75  # of the mean change: the median of the newest values must have moved by as much
USUAL, RARE = 0.9, 0.98  # of the baseline: the median, or both of two, are beyond as many values
CLIPPED = 4.0  # robust standard deviations of the others, beyond which the newest value is watched
SPIKE = 3.0  # standard deviations from its neighbours, at which a value is clipped
REACH = 1.96 * math.sqrt(math.pi / 2)  # errors of a mean in 95% of medians of normal values
MAD = 1.4826  # the standard deviation of normal values over their median absolute deviation
CORRELATED = 0.95  # the highest correlation of a launch with the one before that is assumed


class ChangePoint(Value, frozen=True, kw_only=True):
    """A place at which a series changed."""

    at: int
    before: float
    after: float
    errors: float
    ci: tuple[float, float]  # the 95 % interval of the change, relative to the value before

    @property
    def change(self) -> float:
        """The change, relative to the value before."""
        return self.after / self.before - 1


class Look(NamedTuple):
    """What a series shows at one look."""

    changes: tuple[ChangePoint, ...]  # the oldest first; none if the series is too short
    # `alarm` if a change begins within the newest six values, and would be as clear if the series
    # had been looked at after each of them; `watch` if it is less clear, or if only the newest
    # value is out of the range of the others; else `steady`
    state: State


def look(values: Sequence[float]) -> Look:
    """Find the changes of a series, and tell whether its newest values changed.

    `values` are medians of launches above 0, the oldest first: one changed value is watched, two
    are an alarm.
    """
    logs = np.log(np.asarray(values, dtype=np.float64))
    newest = _newest(logs)
    if newest and newest.excess > 0:  # an alarm: the newest values are a segment
        last = _Place(len(logs) - newest.size, newest.errors, newest.error)
        places = [*_old_places(logs), last]
    else:
        places = sorted(_split(logs, 0, len(logs), SEGMENT))
    ends = [0, *(place.at for place in places), len(logs)]
    points = []
    for (change, errors, error), start, end in zip(places, ends, ends[2:], strict=False):
        before, after = median(logs[start:change].tolist()), median(logs[change:end].tolist())
        low, high = (math.expm1(after - before + sign * REACH * error) for sign in (-1, 1))
        point = ChangePoint(
            at=change, before=math.exp(before), after=math.exp(after), errors=errors, ci=(low, high)
        )
        if abs(point.change) >= SMALLEST:
            points.append(point)
    changes = tuple(points)
    return Look(changes, _state(logs, changes, newest))


def _state(logs: Floats, changes: Sequence[ChangePoint], newest: _Newest | None) -> State:
    recent = bool(changes) and changes[-1].at >= len(logs) - max(ALARMS)
    if recent and newest and newest.excess > 0:
        return "alarm"
    if len(logs) <= LEAST:
        return "steady"
    center = median(logs[:-1].tolist())
    spread = MAD * median(np.abs(logs[:-1] - center).tolist())
    far = abs(float(logs[-1]) - center) > max(CLIPPED * spread, SMALLEST)
    has_moved = newest is not None and newest.deviations > WATCHED
    return "watch" if far or has_moved or recent else "steady"


class _Place(NamedTuple):
    """Where a series changed, by how many standard errors, and the standard error."""

    at: int
    errors: float
    error: float


def _old_places(logs: Floats) -> list[_Place]:
    """Find the changes that the newest values have no part in."""
    history = logs[: -max(ALARMS)]
    return sorted(_split(history, 0, len(history), PROVED))


def _split(logs: Floats, start: int, end: int, last: int) -> Iterator[_Place]:
    """Split a segment at its largest change, and each part again; the last keeps `last` values."""
    right = last if end == len(logs) else SEGMENT
    if end - start < max(LEAST, SEGMENT + right):
        return
    values = _clip(logs[start:end])
    middle, errors, error = _largest_difference(values, right)
    places: tuple[int, ...] = (middle,)
    if errors < THRESHOLD:
        places, errors, error = _largest_passing(values, right)
        if errors < PASSED:
            return
    yield from (_Place(start + place, errors, error) for place in places)
    edges = (start, *(start + place for place in places), end)
    for begin, next_ in pairwise(edges):
        yield from _split(logs, begin, next_, last)


class _Newest(NamedTuple):
    """How many of the newest values differ from those before, and how much.

    `errors` and `deviations` are as in `_difference`; `excess` is above 0 for an alarm.
    """

    excess: float
    size: int
    errors: float
    error: float
    deviations: float


def _newest(logs: Floats) -> _Newest | None:
    """Compare the newest values with all since the last change: the number that differs most."""
    places = _old_places(logs)
    whole = logs[places[-1].at if places else 0 :]
    if len(whole) < LEAST + max(ALARMS):
        values = whole
    else:
        values = np.concatenate((_clip(whole[: -max(ALARMS)]), whole[-max(ALARMS) :]))
    candidates = []
    for count, alarm in ALARMS.items():
        before, after = values[:-count], values[-count:]
        if len(before) < LEAST or not _all_moved(before, after):
            continue
        errors, error, deviations = _difference(before, after)
        least = alarm + SHORT / len(before)
        excess = deviations - least if len(before) >= PROVED else -math.inf
        if abs(median(after.tolist()) - median(before.tolist())) >= math.log1p(SMALLEST):
            candidates.append(_Newest(excess, count, errors, error, deviations))
    return max(candidates, default=None)


def _all_moved(before: Floats, after: Floats) -> bool:
    """Tell whether the newest values moved together: not one spike, nor a usual mode."""
    center = median(before.tolist())
    shifts = np.sort(after - center)
    if len(after) < SEGMENT:
        less, more = sorted(shifts, key=abs)
        together = bool(less * more > SHARED * more**2)
        return together and abs(less) > _edge(before - center, less, RARE)
    middle: float = median(shifts.tolist())
    mean = float(np.mean(shifts))
    return middle * mean > MIDDLE * mean**2 and abs(middle) > _edge(before - center, middle, USUAL)


def _edge(shifts: Floats, direction: float, share: float) -> float:
    """Return distance that a share of the values does not exceed, in the direction of another."""
    rank = int(share * (len(shifts) - 1))
    return float(np.partition(shifts if direction > 0 else -shifts, rank)[rank])


def _difference(before: Floats, after: Floats) -> tuple[float, float, float]:
    """Compare the newest values with those before.

    The correlation of neighbours is estimated, with a prior, as short series say little about it.
    The t statistic is converted to a normal deviate: D. L. Wallace, Annals of Mathematical
    Statistics 30, 1959. Return the difference of the means in standard errors, the standard error,
    and the normal deviate.
    """
    count = len(before) + len(after)
    rest = np.concatenate((before - before.mean(), after - after.mean()))
    distance = abs(float(after.mean() - before.mean()))
    variance = float(rest @ rest) / (count - 2)
    if variance <= 0:
        return (math.inf, 0.0, math.inf) if distance > 0 else (0.0, 0.0, 0.0)
    least = math.sqrt(variance * (1 / len(before) + 1 / len(after)))
    if distance < WATCHED * least:  # a correlation would only lessen it
        return distance / least, least, 0.0
    estimate = _correlation(rest, variance)
    correlation = min(
        max((count * estimate + WEIGHT * ASSUMED) / (count + WEIGHT), 0.0), CORRELATED
    )
    sizes = np.array([len(before), len(after)])
    error = math.sqrt(variance * float(_variance_of_mean(sizes, correlation).sum()))
    errors = distance / error
    freedom = max(1.0, (count - 2) * (1 - correlation**2) / (1 + correlation**2))
    scale = (8 * freedom + 1) / (8 * freedom + 3)
    return errors, error, scale * math.sqrt(freedom * math.log1p(errors**2 / freedom))


def _largest_difference(logs: Floats, right_least: int) -> tuple[int, float, float]:
    """Return the place of the largest standardised difference of means, and its standard error."""
    count = len(logs)
    sums = np.cumsum(logs)
    sizes = np.arange(SEGMENT, count - right_least + 1)
    left_mean = sums[sizes - 1] / sizes
    right = (sums[-1] - sums[sizes - 1]) / (count - sizes)
    distance = np.abs(right - left_mean)
    best = int(np.argmax(distance / np.sqrt(1 / sizes + 1 / (count - sizes))))
    place = int(sizes[best])
    rest = np.concatenate((logs[:place] - left_mean[best], logs[place:] - right[best]))
    variance = float(rest @ rest) / (count - 2)
    if variance <= 0:
        return place, math.inf if distance[best] > 0 else 0.0, 0.0
    correlation = _autocorrelation(rest, variance)
    errors = np.sqrt(
        variance
        * (_variance_of_mean(sizes, correlation) + _variance_of_mean(count - sizes, correlation))
    )
    best = int(np.argmax(distance / errors))
    return int(sizes[best]), float(distance[best] / errors[best]), float(errors[best])


def _largest_passing(logs: Floats, right_least: int) -> tuple[tuple[int, ...], float, float]:
    """Return both ends of the values that differ most from all others, and the standard error."""
    count = len(logs)
    sums = np.concatenate(([0.0], np.cumsum(logs - logs.mean())))
    inner = np.abs(sums[:, None] - sums) * _weights(count, right_least)
    start, end = divmod(int(np.argmax(inner)), count + 1)
    if not inner[start, end] > 0:
        return (), 0.0, 0.0
    inside = np.zeros(count, dtype=np.bool_)
    inside[start:end] = True
    means = float(logs[inside].mean()), float(logs[~inside].mean())
    rest = logs - np.where(inside, *means)
    variance = float(rest @ rest) / (count - 2)
    if variance <= 0:
        return (start, end), math.inf, 0.0
    correlation = _autocorrelation(rest, variance)
    sizes = np.array([end - start, count - end + start])
    error = math.sqrt(variance * float(_variance_of_mean(sizes, correlation).sum()))
    return (start, end), abs(means[0] - means[1]) / error, error


@lru_cache(64)
def _weights(count: int, right_least: int) -> Floats:
    """Return the weight of the sum of values from one to another: 0 where a part is too short."""
    places = np.arange(count + 1)
    size = places - places[:, None]
    fits = (places[:, None] >= SEGMENT) & (places <= count - right_least) & (size >= SEGMENT)
    return np.where(fits, 1 / np.sqrt(np.where(fits, size * (count - size), 1)), 0.0)


def _autocorrelation(rest: Floats, variance: float) -> float:
    """Estimate the correlation of a value with the one before, on the high side."""
    correlation = _correlation(rest, variance)
    error = 1 / math.sqrt(len(rest))
    if correlation > error:
        correlation += error  # if launches resemble each other, assume the higher correlation
    return min(max(correlation, 0.0), CORRELATED)


def _correlation(rest: Floats, variance: float) -> float:
    count = len(rest)
    raw = float(rest[1:] @ rest[:-1]) / (count - 1) / variance
    return raw + (1 + 4 * max(raw, 0.0)) / count


def _variance_of_mean(sizes: NDArray[np.int_], correlation: float) -> Floats:
    """Return the variance of a mean of an AR(1) process, relative to that of a value."""
    whole: Floats = (1 + correlation) / (1 - correlation) - 2 * correlation * (
        1 - correlation**sizes
    ) / (sizes * (1 - correlation) ** 2)
    return whole / sizes


def _clip(logs: Floats) -> Floats:
    """Clip single spikes; a value whose neighbours are similar is not a spike."""
    before, after = np.append(logs[1], logs[:-1]), np.append(logs[1:], logs[-2])
    middle = np.maximum(np.minimum(before, logs), np.minimum(np.maximum(before, logs), after))
    reach = SPIKE * float(np.std(logs - middle))
    return np.clip(logs, middle - reach, middle + reach)
