"""How each host of a fleet compares with the others of the same run."""

from __future__ import annotations

from collections import defaultdict
from statistics import median, median_high, median_low
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.core.model.fleet import PairTest

FEWEST = 3  # hosts: of two, a slow pair does not say which


def host_shares(tests: Iterable[PairTest], *, better: str) -> dict[int, float]:
    """Return the share of the fleet's median that each host reaches in a run.

    What changes for all hosts, such as an upgraded kernel, does not change these shares.

    Args:
        better: whether `higher` or `lower` values are better.

    Returns:
        By the number of each host, its worse direction over the median of all hosts; of that
        direction, the median of its tests, so that a bad partner does not count: of an even number,
        the better of the two in the middle, as one of two partners may be the bad one. Nothing of
        fewer than three hosts.

    """
    valued = [test for test in tests if test.value]
    together = [test for test in valued if not test.alone] or valued
    sent: dict[int, list[float]] = defaultdict(list)
    received: dict[int, list[float]] = defaultdict(list)
    for test in together:
        sent[test.source].append(test.value or 0.0)
        received[test.target].append(test.value or 0.0)
    worse, middle_of = (min, median_high) if better == "higher" else (max, median_low)
    own = {
        host: worse(middle_of(values[host]) for values in (sent, received) if host in values)
        for host in sorted({*sent, *received})
    }
    if len(own) < FEWEST:
        return {}
    middle = median(own.values())
    return {host: value / middle for host, value in own.items()}
