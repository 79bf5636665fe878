"""Two groups of launches, against enumeration, and simulation with a known truth."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from cluster.analysis.statistics.two_sample import (
    mann_whitney_distribution,
    median_ratio,
    permutation_p_values,
    ratio_interval,
)

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]

DRAWS: dict[str, Draw] = {
    "normal": lambda rng, n: 1 + 0.01 * rng.standard_normal(n),
    "log-normal": lambda rng, n: rng.lognormal(sigma=0.3, size=n),
    "heavy tails": lambda rng, n: np.exp(0.02 * rng.standard_t(2, n)),
    "two modes": lambda rng, n: (
        np.where(rng.random(n) < 0.5, 1.0, 1.1) * (1 + 0.005 * rng.standard_normal(n))
    ),
}


def count_pairs(n: int, m: int) -> list[float]:
    """Count the pairs with the larger value in the first group, for every way to part 1 .. n+m."""
    numbers = range(n + m)
    counts = [0] * (n * m + 1)
    for first in combinations(numbers, n):
        second = set(numbers) - set(first)
        counts[sum(a > b for a in first for b in second)] += 1
    return [count / sum(counts) for count in counts]


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (4, 4), (5, 5), (3, 7), (6, 2)])
def test_the_distribution_is_that_of_all_ways_to_part_the_launches(n: int, m: int) -> None:
    assert mann_whitney_distribution(n, m).tolist() == pytest.approx(count_pairs(n, m), abs=1e-12)


def test_known_ends_of_the_interval() -> None:
    """At 5 against 5, P(U <= 2) is 4/252: the third ratio from each end is left in."""
    base = [1.0, 1.01, 1.02, 1.03, 1.04]
    other = [2.0, 2.05, 2.1, 2.2, 2.4]
    ratios = sorted(b / a for a in base for b in other)
    interval = ratio_interval(base, other)

    assert interval is not None
    assert interval == pytest.approx((ratios[2], ratios[-3]))
    assert median_ratio(base, other) == pytest.approx(ratios[12])


@pytest.mark.parametrize(("n", "m", "interval"), [(1, 1, False), (3, 3, False), (4, 4, True)])
def test_too_few_launches_have_no_interval(n: int, m: int, interval: bool) -> None:  # noqa: FBT001
    assert (ratio_interval([1.0] * n, [1.0] * m) is not None) is interval


@pytest.mark.parametrize(("n", "m"), [(5, 5), (5, 8), (12, 12)])
@pytest.mark.parametrize("name", DRAWS)
def test_the_interval_covers_the_true_ratio(name: str, n: int, m: int) -> None:
    rng = np.random.default_rng(20180626)
    trials = 2000
    hits = 0
    for _ in range(trials):
        base, other = DRAWS[name](rng, n), 1.05 * DRAWS[name](rng, m)
        low, high = ratio_interval(base.tolist(), other.tolist()) or (2.0, 1.0)
        hits += low <= 1.05 <= high

    assert hits >= 0.94 * trials


@pytest.mark.quick(False)  # a simulation of seconds
@pytest.mark.parametrize("cells", [1, 5, 40])
def test_many_cells_find_no_more_false_differences_than_one(cells: int) -> None:
    """Launches that do not differ; each cell has noise of its own, with heavy tails."""
    rng = np.random.default_rng(20180626)
    trials, hits = 200, 0
    for _ in range(trials):
        logs = 0.05 * rng.standard_t(3, (cells, 10))
        values = np.exp(logs).tolist()
        hits += min(permutation_p_values([v[:5] for v in values], [v[5:] for v in values])) <= 0.05

    assert hits <= 0.08 * trials  # 5 % is expected; more than 8 % would be rare


def test_one_cell_of_many_that_differs_is_found_and_no_other() -> None:
    rng = np.random.default_rng(20180626)
    hits = np.zeros(30)
    for _ in range(50):
        values = np.exp(0.01 * rng.standard_normal((30, 10)))
        values[7, 5:] *= 1.05
        likely = permutation_p_values(values[:, :5].tolist(), values[:, 5:].tolist())
        hits += np.array(likely) <= 0.05

    assert hits[7] >= 45
    assert hits.sum() - hits[7] <= 10


def test_the_same_launches_are_no_difference_at_all() -> None:
    values = [[1.0, 1.1, 1.2, 1.3, 1.4], [2.0, 2.0, 2.0, 2.0, 2.0]]

    assert permutation_p_values(values, values) == [1.0, 1.0]


@pytest.mark.timed
@pytest.mark.timeout(30)
def test_many_launches_are_no_trouble() -> None:
    rng = np.random.default_rng(1)
    values = rng.lognormal(sigma=0.01, size=(50, 100))

    assert (
        min(permutation_p_values(values[:, :50].tolist(), (1.05 * values[:, 50:]).tolist())) < 0.001
    )
    assert ratio_interval(values[0, :50].tolist(), values[0, 50:].tolist()) is not None
