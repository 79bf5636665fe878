"""Two groups of launches: by what factor they differ, and whether that is more than chance.

A launch is the unit: values of one launch share its placement, its cores and its time, so that a
thousand of them say little about the next launch. The only assumption is that, if the two groups do
not differ, any launch could as well have been in the other group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations, islice
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

LEVEL = 0.95
MOST_SWAPS = 5000  # permutations of launches between the two groups that are examined
SEED = 20180626  # any number will do, if it is always the same
LARGEST = 2**20  # values that are processed at once
GRAIN = 0.001  # of a median: launches that differ by less count as equal


@cache
def mann_whitney_distribution(n: int, m: int) -> Values:
    """Return the distribution of Mann and Whitney's U if two groups do not differ.

    For each u from 0 to n * m, the probability that u of the n * m pairs have the larger value in
    the first group, by the recurrence of H. B. Mann and D. R. Whitney (1947).
    """
    table = [[np.ones(1)] * (m + 1) for _ in range(n + 1)]
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            shares = np.zeros(i * j + 1)
            shares[j:] += table[i - 1][j] * (i / (i + j))  # the largest value is in the first group
            shares[: i * (j - 1) + 1] += table[i][j - 1] * (j / (i + j))
            table[i][j] = shares
    return table[n][m]


def median_ratio(base: Sequence[float], other: Sequence[float]) -> float:
    """Return the median of all ratios of `other` to `base` (J. L. Hodges, E. L. Lehmann, 1963)."""
    return math.exp(float(np.median(_logs(base, other))))


def ratio_interval(
    base: Sequence[float], other: Sequence[float], level: float = LEVEL
) -> tuple[float, float] | None:
    """Return the confidence interval of that ratio, by inversion of Mann and Whitney's test.

    None if there are too few values for the level (less than 4 and 4 for 95 %).
    """
    cdf = np.cumsum(mann_whitney_distribution(len(base), len(other)))
    left_out = int(np.searchsorted(cdf, (1 - level) / 2, side="right"))
    if not left_out:
        return None
    logs = _logs(base, other)
    return math.exp(logs[left_out - 1]), math.exp(logs[-left_out])


def _logs(base: Sequence[float], other: Sequence[float]) -> Values:
    """Return the logarithms of all ratios, sorted."""
    return np.sort(np.subtract.outer(np.log(other), np.log(base)).ravel())


def permutation_p_values(
    base: Sequence[Sequence[float]], other: Sequence[Sequence[float]]
) -> list[float]:
    """Compute how likely any of several cells would be as far apart by chance, for each cell.

    The launches are divided into two groups in all other ways (in 5000 of them, if there are more),
    and the largest distance of any cell is taken each time. So comparing many cells gives no more
    false differences than comparing one (P. H. Westfall, S. S. Young, 1993). For each cell, values
    above 0 are in the same order of launches.
    """
    logs = np.log(np.concatenate([np.transpose(base), np.transpose(other)]))
    n = len(base[0])
    actual = _distances(logs, np.arange(len(logs))[None], n)[0]
    orders = _orders(n, len(logs))
    parts = np.array_split(orders, 1 + orders.size * logs.shape[1] // LARGEST)
    farthest = np.concatenate([_distances(logs, part, n).max(axis=1) for part in parts])
    as_far = farthest[:, None] >= actual - 1e-9
    return [float(p) for p in (1 + as_far.sum(axis=0)) / (1 + len(farthest))]


def _distances(logs: Values, orders: NDArray[np.intp], n: int) -> Values:
    """Return the distance of the two groups, for each order of the launches and each cell.

    The unit is their own spread; the first group is the first n launches of an order.
    """
    samples = logs[orders]
    groups = (samples[:, :n], samples[:, n:])
    first, second = (group.mean(axis=1) for group in groups)
    variances = [group.var(axis=1, ddof=1) / group.shape[1] for group in groups]
    spread = np.sqrt(variances[0] + variances[1] + GRAIN**2)
    return np.asarray(np.abs(first - second) / spread)


def _orders(n: int, total: int) -> NDArray[np.intp]:
    """Return all ways to choose n launches as the first group, except the actual one."""
    if math.comb(total, n) <= MOST_SWAPS:
        choices = np.array([*islice(combinations(range(total), n), 1, None)], dtype=np.intp)
        rest = np.ones((len(choices), total), dtype=bool)
        np.put_along_axis(rest, choices, values=False, axis=1)
        return np.argsort(rest, axis=1, kind="stable")
    rng = np.random.default_rng(SEED)
    return np.array([rng.permutation(total) for _ in range(MOST_SWAPS - 1)], dtype=np.intp)
