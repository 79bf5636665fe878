"""Launches that follow one another, as pairs: what drifts from hour to hour is in both."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


def paired_ratio(
    base: Sequence[float], other: Sequence[float], level: float
) -> tuple[float, float, float]:
    """Estimate by what factor the second value of each pair differs from the first.

    Args:
        base: positive values.
        other: positive values, each the partner of one of `base`.
        level: the least confidence of the interval.

    Returns:
        The factor (the median of the means of all two pairs, on a logarithmic scale; J. L. Hodges,
        E. L. Lehmann, 1963), and its interval by inversion of Wilcoxon's signed-rank test; of no
        end where there are too few pairs (less than 6 for 95 %).

    """
    logs = np.log(other) - np.log(base)
    means = np.sort(np.add.outer(logs, logs)[np.triu_indices(len(logs))] / 2)
    below = np.cumsum(signed_ranks(len(logs)))
    left_out = int(np.searchsorted(below, (1 - level) / 2, side="right"))
    ends = (means[left_out - 1], means[-left_out]) if left_out else (-math.inf, math.inf)
    return math.exp(np.median(means)), math.exp(ends[0]), math.exp(ends[1])


def signed_ranks(pairs: int) -> list[float]:
    """Give the distribution of the sum of the ranks of positive differences, if there is none.

    Args:
        pairs: how many.

    Returns:
        The probability of each sum from 0 to `pairs * (pairs + 1) / 2`.

    """
    ways = [1.0]
    for rank in range(1, pairs + 1):
        without, with_it = [*ways, *[0.0] * rank], [*[0.0] * rank, *ways]
        ways = [(a + b) / 2 for a, b in zip(without, with_it, strict=True)]
    return ways
