"""Statistics that scipy has too: the same numbers, by another hand."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from cluster.analysis.statistics.distribution import (
    median_interval,
    median_interval_ranks,
    middle,
    outliers,
    quantile,
)
from cluster.analysis.statistics.two_sample import (
    mann_whitney_distribution,
    median_ratio,
    permutation_p_values,
    ratio_interval,
)

stats = pytest.importorskip("scipy.stats", reason="scipy is missing: pip install scipy")

SIZES = [(4, 4), (5, 5), (5, 8), (9, 4), (12, 12)]


def draw_values(n: int, seed: int = 20180626) -> list[float]:
    """Draw positive values with a long tail and no ties."""
    return [float(value) for value in np.random.default_rng(seed).lognormal(sigma=0.4, size=n)]


@pytest.mark.parametrize("n", [*range(6, 60), 100, 999, 10_000])
def test_the_ranks_of_a_median_have_the_level_by_the_binomial_distribution(n: int) -> None:
    """No pair of ranks that is narrower reaches 95 %."""
    ranks = median_interval_ranks(n)
    assert ranks is not None
    low, high = ranks
    cumulative = stats.binom.cdf(np.arange(-1, n + 1), n, 0.5)  # P(B <= k), from k = -1
    narrower = cumulative[high - low : n + 1] - cumulative[1 : n + 2 - (high - low)]

    assert cumulative[high] - cumulative[low] >= 0.95 - 1e-12
    assert narrower.max() < 0.95


@pytest.mark.parametrize("n", [8, 20, 25, 100, 1000])
def test_the_interval_of_a_median_is_within_that_of_scipy(n: int) -> None:
    """Scipy inverts the sign test: equal tails, so never narrower, and at most by a rank wider."""
    values = sorted(draw_values(n))
    interval = median_interval(values)
    assert interval is not None
    reference = stats.quantile_test(values, p=0.5).confidence_interval(confidence_level=0.95)
    places = [values.index(end) for end in (*interval, reference.low, reference.high)]

    assert abs(places[0] - places[2]) <= 1
    assert abs(places[1] - places[3]) <= 1
    assert places[1] - places[0] <= places[3] - places[2]


@pytest.mark.parametrize("n", [1, 2, 3, 10, 101, 1000])
@pytest.mark.parametrize("part", [0.0, 0.01, 0.05, 0.25, 0.5, 0.95, 0.99, 1.0])
def test_quantiles(n: int, part: float) -> None:
    values = np.sort(draw_values(n))

    assert quantile(values, part) == pytest.approx(
        float(stats.mstats.mquantiles(values, [part], alphap=1, betap=1)[0]), rel=1e-12
    )
    assert middle(values) == pytest.approx(float(np.median(values)), rel=1e-15)


def test_outliers_are_counted_from_the_quartile_range() -> None:
    values = np.sort([*draw_values(500), 50.0, 60.0, 70.0])
    p25, p75 = quantile(values, 0.25), quantile(values, 0.75)
    reach = 3 * float(stats.iqr(values))

    expected = sum(not p25 - reach <= value <= p75 + reach for value in values)
    assert expected >= 3
    assert outliers(values, p25, p75) == expected


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_the_distribution_of_mann_and_whitney(n: int, m: int) -> None:
    """The exact p-value of each U that two groups without ties can have."""
    cumulative = np.cumsum(mann_whitney_distribution(n, m))
    base = list(range(1, n + 1))
    for shift in (-0.5, 1.5, 2.5, n + 0.5):
        other = [value + shift for value in range(m)]
        result = stats.mannwhitneyu(base, other, alternative="less", method="exact")

        assert cumulative[int(result.statistic)] == pytest.approx(result.pvalue, abs=1e-12)


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_the_interval_of_a_ratio_ends_where_the_test_of_mann_and_whitney_turns(
    n: int, m: int
) -> None:
    """Just inside an end scipy's exact test finds no difference; just outside, it does."""
    base, other = draw_values(n), [1.3 * value for value in draw_values(m, seed=7)]
    interval = ratio_interval(base, other)
    assert interval is not None

    def p(factor: float) -> float:
        scaled = [value / factor for value in other]
        return float(stats.mannwhitneyu(base, scaled, method="exact").pvalue)

    low, high = interval
    assert p(low * (1 + 1e-9)) > 0.05 >= p(low * (1 - 1e-9))
    assert p(high * (1 - 1e-9)) > 0.05 >= p(high * (1 + 1e-9))
    assert low <= median_ratio(base, other) <= high


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_the_ratio_of_two_groups_is_the_estimate_of_hodges_and_lehmann(n: int, m: int) -> None:
    """It is where the test sees least: the two groups, brought together by it, are as one."""
    base, other = draw_values(n), draw_values(m, seed=7)
    scaled = [value / median_ratio(base, other) for value in other]

    centre = n * m / 2
    statistic = float(stats.mannwhitneyu(base, scaled, method="exact").statistic)
    assert abs(statistic - centre) <= 0.5


@pytest.mark.parametrize(("n", "m"), [(4, 4), (5, 5), (5, 6)])
def test_the_chance_of_one_cell_is_that_of_a_permutation_test(n: int, m: int) -> None:
    """All ways to part so few launches are looked at, by both."""
    base, other = draw_values(n), [1.4 * value for value in draw_values(m, seed=7)]

    def distance(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
        spread = math.sqrt(
            float(stats.sem(first) ** 2 + stats.sem(second) ** 2) + 0.001**2
        )  # of a median: no two launches are compared more finely
        return abs(float(np.mean(first) - np.mean(second))) / spread

    result = stats.permutation_test(
        (np.log(base), np.log(other)),
        distance,
        vectorized=False,
        n_resamples=np.inf,
        alternative="greater",
    )
    assert permutation_p_values([base], [other]) == [pytest.approx(result.pvalue, abs=1e-12)]
