"""Luck of the draw: variance between and within draws, and the best of several."""

import math
from itertools import combinations

import msgspec
import numpy as np
import pytest

from cluster.analysis.statistics.lottery import (
    SIGNIFICANT,
    drawn_series,
    expected_best,
    least_chance,
    split,
)
from cluster.core.model.results.measurements import DrawCost, DrawnSeries, Summary
from tests.plain_values import plain_summary

VALUES = (3.0, 1.0, 4.0, 1.5, 9.0, 2.6)


def job(median: float, better: str = "lower", metric: str = "latency") -> Summary:
    direction = "lower" if better == "lower" else "higher"
    return plain_summary(
        median, metric=metric, unit="s", better=direction, params={"size": 8}, n=100
    )


def series(
    *draws: tuple[float, ...], better: str = "lower", dollars: float | None = 2.0
) -> DrawnSeries:
    costs = [DrawCost(seconds=360.0, dollars=dollars)] * len(draws)
    [result] = drawn_series([[[job(v, better)] for v in jobs] for jobs in draws], costs)
    return result


@pytest.mark.parametrize("draws", range(1, 7))
def test_the_best_is_the_mean_over_all_choices(draws: int) -> None:
    choices = list(combinations(VALUES, draws))
    assert expected_best(VALUES, draws, "higher") == pytest.approx(
        sum(map(max, choices)) / len(choices)
    )
    assert expected_best(VALUES, draws, "lower") == pytest.approx(
        sum(map(min, choices)) / len(choices)
    )


def test_the_best_is_unbiased() -> None:
    """Of three of a uniform distribution, the best is 3/4 on average."""
    chance = np.random.default_rng(1)
    estimates = [expected_best(chance.random(6).tolist(), 3, "higher") for _ in range(4000)]
    assert np.mean(estimates) == pytest.approx(0.75, abs=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_the_parts_of_the_variance_are_found(seed: int) -> None:
    """Draws differ by 3, and jobs within them by 1."""
    chance = np.random.default_rng(seed)
    centres = 100 + 3 * chance.normal(size=400)
    part = split([(centre + chance.normal(size=4)).tolist() for centre in centres])
    assert part is not None
    assert part.mean == pytest.approx(100, abs=0.5)
    assert (part.between, part.within) == pytest.approx((3, 1), rel=0.1)
    assert part.reliability == pytest.approx(9 / (9 + 1 / 4), rel=0.02)
    assert part.chance < 0.001


def test_the_chance_is_that_of_the_analysis_of_variance() -> None:
    """Where jobs are normal, as that test assumes: within what 4,000 shuffles can tell."""
    stats = pytest.importorskip("scipy.stats", reason="SciPy is not installed")
    chance = np.random.default_rng(3)
    for shift in (0.0, 0.5, 1.0, 1.5):
        draws = [(chance.normal(size=4) + shift * number).tolist() for number in range(3)]
        part = split(draws)
        assert part is not None
        assert part.chance == pytest.approx(stats.f_oneway(*draws).pvalue, abs=0.04)


def test_equal_draws_are_seldom_said_to_differ() -> None:
    chance = np.random.default_rng(7)
    parts = [split(chance.normal(size=(5, 3)).tolist()) for _ in range(200)]
    assert sum(part is not None and part.chance <= SIGNIFICANT for part in parts) <= 18


def test_draws_may_have_different_numbers_of_jobs() -> None:
    part = split([[10.0, 10.2, 9.8], [12.0, 12.2], [14.0]])
    assert part is not None
    assert part.between > 10 * part.within


@pytest.mark.parametrize("draws", [[], [[1.0, 2.0]], [[1.0], [2.0]], [[1.0, 2.0], []]])
def test_too_little_to_split(draws: list[list[float]]) -> None:
    assert split(draws) is None


@pytest.mark.parametrize("jobs", [(2, 2), (3, 3), (2, 2, 2), (3, 2), (2, 2, 1)])
def test_no_values_have_a_smaller_chance_than_the_least(jobs: tuple[int, ...]) -> None:
    part = split([[10.0**draw] * count for draw, count in enumerate(jobs)])
    assert part is not None
    assert part.chance >= 0.8 * least_chance(jobs)
    assert least_chance((2, 2)) == pytest.approx(1 / 3)
    assert least_chance((3, 3, 3)) == pytest.approx(1 / 280)
    assert least_chance((9,) * 9) == pytest.approx(1 / 4001)


def test_draws_without_any_variance() -> None:
    part = split([[5.0, 5.0], [5.0, 5.0]])
    assert part is not None
    assert (part.between, part.within, part.reliability, part.chance) == (0, 0, 0, 1.0)


def test_what_the_best_draw_gains_and_costs() -> None:
    """Jobs of a draw are alike here, so that all of the gain is the draw's."""
    result = series((10.0,) * 3, (9.0,) * 3, (11.0,) * 3, (10.0,) * 3, (10.0,) * 3)
    best = result.best[-1]
    assert msgspec.json.decode(msgspec.json.encode(result), type=DrawnSeries) == result
    assert result.differs
    assert result.best[0].gain == pytest.approx(0, abs=1e-12)
    assert (best.draws, best.measured, best.dollars) == (5, 9.0, 10.0)
    assert best.gain == pytest.approx(0.1)
    # Four more draws take 0.4 h of the machines; each hour of the job is then 0.1 h shorter.
    assert best.hours == pytest.approx(4.0)
    assert series((1.0, 1.1), (2.0, 2.1), dollars=None).best[1].dollars is None


def test_a_higher_rate_saves_less_time_than_its_gain() -> None:
    result = series((1.0, 1.0), (2.0, 2.0), (3.0, 3.0), better="higher")
    assert result.best[-1].measured == 3.0
    assert result.best[-1].gain == pytest.approx(0.5)
    assert result.best[-1].hours == pytest.approx(0.2 / (1 - 1 / 1.5))


def test_what_only_jobs_differ_by_is_no_gain() -> None:
    """The best of five measured draws is 5% better, and there is nothing to be won."""
    chance = np.random.default_rng(2)
    results = [
        series(*map(tuple, (1 + 0.05 * chance.normal(size=(5, 3))).tolist())) for _ in range(50)
    ]
    measured = np.mean([1 - result.best[-1].measured for result in results])
    assert measured > 0.03
    assert np.mean([result.best[-1].gain for result in results]) < measured / 2
    assert sum(result.differs for result in results) <= 6


def test_many_series_make_none_differ_by_chance() -> None:
    chance = np.random.default_rng(4)
    values = 1 + 0.1 * chance.normal(size=(5, 3, 40))
    draws = [[[job(v, metric=f"m{i}") for i, v in enumerate(jobs)] for jobs in draw]
             for draw in values]  # fmt: skip
    results = drawn_series(draws, [DrawCost(seconds=60)] * 5)
    assert len(results) == 40
    assert not any(result.differs for result in results)
    assert min(result.chance for result in results) < SIGNIFICANT


def test_a_series_that_a_draw_lacks_is_left_out() -> None:
    whole = [[job(1.0), job(1.0, metric="other")], [job(1.1), job(1.2, metric="other")]]
    part = [[job(2.0)], [job(2.1)]]
    results = drawn_series([whole, part], [DrawCost(seconds=60)] * 2)
    assert [result.metric for result in results] == ["latency"]
    assert math.isclose(results[0].mean, 1.55)
