"""When an adaptive run stops, by values that are known beforehand."""

from __future__ import annotations

from itertools import count, islice
from typing import TYPE_CHECKING, cast

import pytest

from cluster.measure.repetitions import Counts, Repetitions, samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mpi4py.MPI import Comm


class Ranks:
    """Two ranks, of which the other one is content, or never is."""

    def __init__(self, *, other: bool) -> None:
        self._other = other

    def allreduce(self, value: int) -> int:
        return value + int(self._other)

    @staticmethod
    def bcast(value: bool) -> bool:  # noqa: FBT001 - as in mpi4py
        return value

    def Get_size(self) -> int:  # noqa: N802 - its name in mpi4py
        return 2


def take_samples(
    series: Iterable[float], *, most: int = 2000, at_once: int = 7, other: bool = True
) -> tuple[int, int]:
    """Return how many values there are in the end, and how many repetitions there were."""
    source = iter(series)
    repetitions = 0

    def repeat(n: int) -> list[float]:
        nonlocal repetitions
        repetitions += n
        return list(islice(source, n))

    values: list[float] = []
    counts = Counts(warm_up=3, values=most, adaptive=True)
    for size, _ in samples(repeat, counts, at_once, cast("Comm", Ranks(other=other)), values):
        assert size == len(values)
    return len(values), repetitions


@pytest.mark.parametrize(
    ("seconds", "most", "values"),
    [(1e-4, 1024, 10_000), (0.01, 1024, 224), (1.0, 1024, 14), (1.0, 1, 10)],
)
def test_a_slow_link_gives_fewer_values_but_ten_at_least(
    monkeypatch: pytest.MonkeyPatch, seconds: float, most: int, values: int
) -> None:
    """2 s for each series, by a clock that only the exchanges move; a warm-up is cut short, too."""
    now, repetitions = 0.0, 0

    def repeat(n: int) -> list[float]:
        nonlocal now, repetitions
        now, repetitions = now + n * seconds, repetitions + n
        return [seconds] * n

    monkeypatch.setattr("time.monotonic", lambda: now)
    counts = Repetitions().counts(100, 10_000)
    times: list[float] = []
    list(samples(repeat, counts, most, cast("Comm", Ranks(other=True)), times))

    assert len(times) == values
    assert repetitions - values == (100 if seconds < 0.001 else 31 if seconds < 1 else 1)


def constant() -> Iterable[float]:
    return (1e-6 for _ in count())


def noise_that_ends_at(n: int) -> Iterable[float]:
    return (1e-6 * (1 + i % 2) if i < n else 1e-6 for i in count())


def growth() -> Iterable[float]:
    return (1e-6 * 1.01**i for i in count())


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_what_is_constant_is_precise_as_soon_as_it_may_be(at_once: int) -> None:
    assert take_samples(constant(), at_once=at_once) == (20, 23)


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_noise_goes_on_until_the_median_is_known(at_once: int) -> None:
    """The same, however many repetitions there are before anybody looks."""
    n, repetitions = take_samples(noise_that_ends_at(40), at_once=at_once)

    assert 40 < n < 200
    assert repetitions == n + 3
    assert n == take_samples(noise_that_ends_at(40), at_once=3)[0]


@pytest.mark.parametrize("series", [growth, lambda: noise_that_ends_at(10_000)])
def test_what_never_settles_goes_on_to_the_most(series: Callable[[], Iterable[float]]) -> None:
    assert take_samples(series(), most=500) == (500, 503)


def test_the_other_rank_must_agree() -> None:
    assert take_samples(constant(), most=100, other=False) == (100, 103)
