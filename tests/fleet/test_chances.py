"""The chance that a healthy host has such tests: what it says of chance, and of a slow host."""

import math

import numpy as np
import pytest

from cluster.fleet.solver import closeness, low_and_close

FLEET = np.sort(np.random.default_rng(1).random(20_000))
LEVELS = (0.2, 0.05, 0.01)


@pytest.mark.parametrize("count", [3, 10, 30])
def test_healthy_hosts_seldom_look_slow(count: int) -> None:
    """Draws from the fleet have a chance up to a level no more often than the level says."""
    draws = np.random.default_rng(count)
    chances = []
    for _ in range(3000):
        values = np.sort(draws.choice(FLEET, count))[::-1]
        share = np.searchsorted(FLEET, values[0], side="right") / len(FLEET)
        chances.append(low_and_close(share**count, closeness(values, FLEET)))

    for level in LEVELS:
        most = level + 3 * math.sqrt(level * (1 - level) / len(chances))
        assert np.mean(np.array(chances) <= level) <= most


@pytest.mark.parametrize("near", [2, 5, 9])
def test_the_chance_of_close_tests_is_binomial(near: int) -> None:
    """The best is 0.75, some more are within 0.01 of it, and the others are far below."""
    values = np.array([0.75, *[0.74] * near, *[0.01] * (10 - near)])
    share = (np.searchsorted(FLEET, 0.75) - np.searchsorted(FLEET, 0.74)) / np.searchsorted(
        FLEET, 0.75
    )
    exact = sum(math.comb(10, k) * share**k * (1 - share) ** (10 - k) for k in range(near, 11))

    assert closeness(values, FLEET) == pytest.approx(min(1.0, 10 * exact), rel=0.1)


def test_values_that_many_tests_have_are_no_pile() -> None:
    """Contention halves the rate of half of all tests."""
    fleet = np.sort(np.concatenate([FLEET, np.full(20_000, 0.5)]))

    assert closeness(np.full(10, 0.5), fleet) > 0.1
    assert closeness(np.full(10, 0.75), fleet) < 1e-20


def test_one_test_is_close_to_nothing() -> None:
    assert closeness(np.array([0.1]), FLEET) == 1.0
    assert low_and_close(0.25, 1.0) == 0.5
    assert low_and_close(0.0, 0.0) == 0.0
