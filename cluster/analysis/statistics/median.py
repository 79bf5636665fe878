"""A median's confidence interval, from order statistics; no distribution is assumed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEVEL = 0.95
ENOUGH_VALUES = 20  # for a series to be called converged
PRECISE = 0.025  # half of the interval over the median, to be called converged


@cache  # the series of a run, and of a thousand runs, have few lengths
def median_interval_ranks(n: int, level: float = LEVEL) -> tuple[int, int] | None:
    """Return the narrowest pair of ranks, from 1, of order statistics that enclose the median.

    The number of values below the median is binomial with p = 1/2, so the ranks l < u enclose it
    with probability P(l <= B <= u - 1): terms are added from the middle outwards, the larger first,
    until the level is reached. No distribution of the values is assumed. None if even the extremes
    do not reach the level (n < 6 for 95 %).
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
    """Return the binomial probability of k out of n at p = 1/2."""
    log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(log - n * math.log(2))


def median_interval(ordered: Sequence[float] | NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the 95 % confidence interval of the median of sorted values; None for fewer than 6."""
    ranks = median_interval_ranks(len(ordered))
    if ranks is None:
        return None
    return float(ordered[ranks[0] - 1]), float(ordered[ranks[1] - 1])


def is_precise(values: Sequence[float] | NDArray[np.float64]) -> bool:
    """Tell whether the median of a series is known precisely enough.

    It has at least 20 values, a median above 0, and half of its interval is at most 2.5 % of it.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    interval = median_interval(ordered)
    if interval is None or len(ordered) < ENOUGH_VALUES:
        return False
    median = middle(ordered)
    return median > 0 and (interval[1] - interval[0]) / 2 <= PRECISE * median


def middle(ordered: NDArray[np.float64]) -> float:
    """Return the median of values that are sorted already; there is at least one."""
    half = len(ordered) // 2
    above = float(ordered[half])
    return above if len(ordered) % 2 else (float(ordered[half - 1]) + above) / 2
