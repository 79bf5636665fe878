"""Drift, modes, tails and outliers, against series of a known truth."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from cluster.analysis.statistics.distribution import drift, modes, outliers, quantile
from cluster.analysis.statistics.summarize import summarize
from cluster.core.model.results.measurements import Distribution
from tests.analysis.test_summarize import definition, measurement

Values = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Values]

TRIALS = 200
ONE_MODE: dict[str, Draw] = {
    "normal": lambda rng, n: 1e-6 * (1 + 0.05 * rng.standard_normal(n)),
    "narrow": lambda rng, n: 1e-6 * (1 + 0.002 * rng.standard_normal(n)),
    "log-normal": lambda rng, n: rng.lognormal(sigma=1.0, size=n),
    "a floor and a tail": lambda rng, n: 1 + 0.1 * rng.exponential(size=n),
    "uniform": lambda rng, n: rng.uniform(0.5, 1.5, n),
    "heavy tails": lambda rng, n: np.abs(1 + 0.02 * rng.standard_t(3, n)) + 1e-9,
    "a coarse clock": lambda rng, n: np.round((1 + 0.05 * rng.standard_normal(n)) / 0.03) * 0.03,
}
TWO_MODES: dict[str, Draw] = {
    "half 1.2 x": lambda rng, n: _mix(rng, n, 0.5, 1.2, 0.02),
    "a fifth 2 x": lambda rng, n: _mix(rng, n, 0.2, 2.0, 0.05),
    "a sixth 1.5 x": lambda rng, n: _mix(rng, n, 1 / 6, 1.5, 0.03),
}


def _mix(rng: np.random.Generator, n: int, part: float, times: float, noise: float) -> Values:
    place = np.where(rng.random(n) < part, times, 1.0)
    return np.asarray(place * (1 + noise * rng.standard_normal(n)))


def share(draw: Draw, n: int, check: Callable[[Values], bool], trials: int = TRIALS) -> float:
    """Return the share of simulated series in which something is found."""
    rng = np.random.default_rng(20180626)
    return sum(check(draw(rng, n)) for _ in range(trials)) / trials


def several(series: Values) -> bool:
    return len(modes(np.sort(series))) > 1


@pytest.mark.parametrize("n", [50, 200, 2000])
@pytest.mark.parametrize("name", ONE_MODE)
def test_one_mode_is_hardly_ever_called_several(name: str, n: int) -> None:
    assert share(ONE_MODE[name], n, several) <= 0.01


@pytest.mark.parametrize("n", [300, 2000])
@pytest.mark.parametrize("name", TWO_MODES)
def test_two_modes_are_found(name: str, n: int) -> None:
    assert share(TWO_MODES[name], n, several) >= 0.95


def test_the_modes_are_where_they_are() -> None:
    rng = np.random.default_rng(1)
    places = modes(np.sort(_mix(rng, 5000, 0.3, 2.0, 0.03)))

    assert places == pytest.approx((1.0, 2.0), rel=0.03)


def test_few_values_and_impossible_ones_have_no_modes() -> None:
    assert modes(np.repeat([1.0, 2.0], 24)) == ()
    assert modes(np.sort(np.concatenate([[0.0], np.repeat([1.0, 2.0], 100)]))) == ()
    assert modes(np.full(100, 1e-6)) == ()


@pytest.mark.parametrize("n", [20, 100, 1000])
def test_a_steady_series_hardly_ever_drifts(n: int) -> None:
    """Two independent intervals of 95 % rarely miss one another, and 3 % is needed too."""
    for draw in ONE_MODE.values():
        assert share(draw, n, lambda series: drift(series)[1]) <= 0.02


def test_a_drift_is_found_and_measured() -> None:
    def draw(rng: np.random.Generator, n: int) -> Values:
        return np.asarray((1 + 0.1 * np.arange(n) / n) * (1 + 0.05 * rng.standard_normal(n)))

    change, _ = drift(draw(np.random.default_rng(3), 10_000))

    assert change == pytest.approx(1.075 / 1.025 - 1, abs=0.004)
    assert share(draw, 500, lambda series: drift(series)[1]) >= 0.95


def test_a_small_drift_is_of_no_interest() -> None:
    series = np.concatenate([np.full(500, 1.0), np.full(500, 1.02)])

    change, real = drift(series)

    assert change == pytest.approx(0.02)
    assert not real


def test_what_cannot_be_told_is_not() -> None:
    assert drift(np.array([1.0])) == (None, False)
    assert drift(np.zeros(100)) == (None, False)
    assert drift(np.array([1.0, 2.0])) == (1.0, False)


def test_outliers_are_counted_and_left_in() -> None:
    ordered = np.array([-50.0, *np.arange(1.0, 22.0), 46.0, 46.1, 99.0])

    assert outliers(ordered, 6.0, 16.0) == 3
    time = definition()
    values = (*np.arange(1.0, 22.0), 99.0)
    [summary] = summarize([measurement(time, values)], [time])
    assert summary.n == 22
    assert summary.shape is not None
    assert (summary.shape.outliers, summary.shape.maximum) == (1, 99.0)


def test_the_shape_of_a_rate_is_that_of_its_times() -> None:
    """The slowest times are the lowest rates, and a rate that falls drifts down."""
    rate = definition(unit="B/s")
    values = (*[1.0] * 60, *[2.0] * 60)
    [summary] = summarize([measurement(rate, values, size=100)], [rate])

    assert summary.shape == Distribution(
        minimum=50.0,
        p25=50.0,
        p75=100.0,
        maximum=100.0,
        outliers=0,
        drift=-0.5,
        drifts=True,
        modes=(),
        tail=2.0 / 1.5,
    )


def test_the_tail_of_what_was_measured_as_a_rate_is_at_its_lowest() -> None:
    rate = definition(unit="B/s")
    raw = measurement(rate, (*[100.0] * 97, 10.0, 10.0, 10.0))
    [summary] = summarize(
        [type(raw)(**{f: getattr(raw, f) for f in raw.__struct_fields__} | {"unit": "B/s"})], [rate]
    )

    assert summary.shape is not None
    assert summary.shape.tail == 10.0


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_a_quantile_is_that_of_numpy(n: int) -> None:
    ordered = np.sort(np.random.default_rng(n).lognormal(size=n))

    for part in (0.0, 0.005, 0.25, 0.5, 0.75, 0.995, 1.0):
        assert quantile(ordered, part) == pytest.approx(float(np.quantile(ordered, part)))
