"""The interval of a median, against exact binomial sums."""

import itertools
import math

import pytest

from cluster.analysis.statistics.distribution import median_interval, median_interval_ranks


def coverages(n: int, width: int) -> dict[tuple[int, int], int]:
    """Return how many of 2**n equally likely signs let each pair of ranks enclose the median."""
    sums = [0, *itertools.accumulate(math.comb(n, k) for k in range(n + 1))]
    return {(low, low + width): sums[low + width] - sums[low] for low in range(1, n - width + 1)}


@pytest.mark.parametrize("n", range(6, 201))
def test_the_ranks_reach_95_percent_and_no_narrower_pair_does(n: int) -> None:
    ranks = median_interval_ranks(n)
    assert ranks is not None
    low, high = ranks
    coverage_by_ranks = coverages(n, high - low)
    narrower = coverages(n, high - low - 1)

    assert 100 * coverage_by_ranks[ranks] >= 95 * 2**n
    assert coverage_by_ranks[ranks] == max(coverage_by_ranks.values())
    assert all(100 * coverage < 95 * 2**n for coverage in narrower.values())


@pytest.mark.parametrize("n", range(6))
def test_fewer_than_6_values_have_no_interval(n: int) -> None:
    assert median_interval_ranks(n) is None
    assert median_interval([1.0] * n) is None


def test_known_ranks() -> None:
    """The extremes of 6 values miss the median in 2 of 64 cases."""
    assert median_interval_ranks(6) == (1, 6)
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == (1.0, 6.0)


def test_another_level() -> None:
    """With 5 values the extremes enclose the median with 15/16."""
    assert median_interval_ranks(5, level=0.93) == (1, 5)
    assert median_interval_ranks(5, level=0.94) is None


@pytest.mark.timed
@pytest.mark.timeout(10)
def test_a_million_values_are_no_trouble() -> None:
    ranks = median_interval_ranks(1_000_000)
    assert ranks is not None

    # The normal approximation: 1.95996 standard deviations of sqrt(n) / 2 to each side.
    assert ranks[0] == pytest.approx(500_000 - 979.98, abs=2)
    assert ranks[1] == pytest.approx(500_000 + 979.98 + 1, abs=2)
