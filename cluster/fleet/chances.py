"""The chance that low tests of one host are chance: how low they are, and how close together.

The null model: the tests of a healthy host that share links with others are independent draws from
the tests of the whole fleet that do. Two things are then independent of one another.

- How low the best of them is: none of n draws is above it.
- How close the others are to the best: given the best, they are draws from what lies below it.
  Those of a slow host pile up just below its capacity. Contention leaves halves and thirds, each in
  many tests of the fleet, and anything else in few. The statistic is that of R. H. Berk and D. H.
  Jones (1979): of all k, the one for which k draws as close as the k closest are most surprising.
  Each has a binomial chance, and there are as many as k.

Both are combined by the product of R. A. Fisher (1932). A host whose capacity is also that of
contention has no pile of its own; then the first alone says more. The chance is the smaller of the
two, twice.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]


def low_and_close(low: float, close: float) -> float:
    """Combine the chance that tests are as low with the chance that they are as close together.

    Returns:
        The chance of such a host, at most 1.

    """
    product = low * close
    fisher = product * (1 - math.log(product)) if product > 0 else 0.0
    return min(1.0, 2 * min(low, fisher))


def closeness(values: Values, fleet: Values) -> float:
    """Return the chance that draws are as close to the best of them.

    Args:
        fleet: tests of the whole fleet, sorted upwards.

    Returns:
        At most 1; 1 for a single test.

    """
    best, others = values[0], values[1:]
    count = len(others)
    if not count:
        return 1.0
    up_to = int(np.searchsorted(fleet, best, side="right"))
    below = np.searchsorted(fleet, others, side="left")
    within = np.minimum(1.0, (up_to - below + 0.5) / (up_to + 0.5))
    return min(1.0, count * math.exp(float(_log_tails(within).min())))


def _log_tails(shares: Values) -> Values:
    """Bound the chance that k or more of n draws fall into the k-th share, for k from 1 to n.

    That is the binomial probability of k, times the geometric series that bounds those of more (W.
    Feller, An Introduction to Probability Theory, volume 1, section VI.3).
    """
    n = len(shares)
    k = np.arange(1, n + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(k))])  # of factorials
    rest = np.maximum(1 - shares, np.finfo(float).eps)
    ratio = (n - k) * shares / ((k + 1) * rest)
    exact = logs[n] - logs[k] - logs[n - k] + k * np.log(shares) + (n - k) * np.log(rest)
    tails: Values = np.where(ratio < 1, exact - np.log1p(-np.minimum(ratio, 0.999)), 0.0)
    return tails


def log_choose(n: int, k: int) -> float:
    """Return the logarithm of the number of ways to choose k of n."""
    if not 0 <= k <= n:
        return -math.inf
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
