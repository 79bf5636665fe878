"""Bandwidths of collectives follow from their times, by the factors of nccl-tests."""

import pytest

from cluster.analysis.limits.link import Route, factor, with_rates
from cluster.analysis.statistics.summarize import summarize
from cluster.benchmarks.collectives.operations import NAMED, rates, timing
from cluster.core.model.hosts import Link
from cluster.core.model.results.measurements import Definition, Factor, Measurement, Summary


@pytest.mark.parametrize(
    ("word", "n", "value"),
    [
        ("", 4, 1.0),
        ("1", 4, 1.0),
        ("(n-1)/n", 2, 0.5),
        ("(n-1)/n", 4, 0.75),
        ("2(n-1)/n", 2, 1.0),
        ("2(n-1)/n", 8, 1.75),
        ("2(n-1)/n", 1, 0.0),
    ],
)
def test_the_factors_of_nccl_tests(word: Factor, n: int, value: float) -> None:
    assert factor(word, n) == pytest.approx(value)


def measure(definition: Definition, seconds: float, size: int, ranks: int) -> list[Measurement]:
    return [
        Measurement(
            metric=definition.metric,
            definition=definition.id,
            unit="s",
            params={"size": size, "ranks": ranks},
            rank=rank,
            host="h",
            values=(seconds, seconds / 2),  # the other ranks are faster
            bytes=size,
        )
        for rank in range(ranks)
    ]


def summaries(
    name: str, seconds: float, size: int, ranks: int, route: Route | None = None
) -> dict[str, Summary]:
    base = timing(NAMED[name])
    definitions = (base, *rates(base))
    measurements = measure(base, seconds, size, ranks)
    results = summarize(with_rates(measurements, definitions), definitions, route or Route())
    return {summary.metric: summary for summary in results}


def test_time_is_the_slowest_ranks_and_bandwidths_follow() -> None:
    """12 bytes, so that a rounded number of bytes would show: 12 x 4/3 = 16, 8 x 4/3 is none."""
    results = summaries("allreduce", 2e-6, 8, 3)

    assert list(results) == ["allreduce", "allreduce_algbw", "allreduce_busbw"]
    assert results["allreduce"].median == pytest.approx(1.5e-6)
    assert results["allreduce_algbw"].median == pytest.approx(8 / 1.5e-6)
    assert results["allreduce_busbw"].median == pytest.approx(8 / 1.5e-6 * 4 / 3)
    assert {summary.n for summary in results.values()} == {2}


def test_a_barrier_has_no_bandwidth() -> None:
    assert rates(timing(NAMED["barrier"])) == ()
    assert list(summaries("barrier", 1e-6, 0, 4)) == ["barrier"]


LINK = Link(rate=125e6, mtu=1500, source="test")
GOODPUT = 125e6 * 1448 / 1538


@pytest.mark.parametrize(
    ("name", "hosts", "ranks", "crossing"),
    [
        ("allreduce", 2, 2, 1.0),
        ("allreduce", 2, 16, 1.0),
        ("allreduce", 4, 8, 1.5),
        ("allgather", 4, 8, 0.75),
        ("reduce_scatter", 4, 8, 0.75),
        ("bcast", 4, 8, 1.0),
        ("reduce", 2, 8, 1.0),
        ("alltoall", 2, 2, 0.5),
        ("alltoall", 2, 8, 2.0),
    ],
)
def test_what_must_pass_a_link_bounds_a_collective(
    name: str, hosts: int, ranks: int, crossing: float
) -> None:
    """Two nodes may show a bus bandwidth of almost twice the link: measuring.md, section 2."""
    route = Route(links=(LINK,) * hosts, ranks=ranks)
    size = 10**6
    results = summaries(name, 1.0, size, ranks, route)

    shortest = size * crossing / GOODPUT
    bus = factor(NAMED[name].factor, ranks)
    assert results[name].bound == pytest.approx(shortest)
    assert results[f"{name}_algbw"].bound == pytest.approx(size / shortest)
    assert results[f"{name}_busbw"].bound == pytest.approx(size / shortest * bus)
    assert len({round(summary.share or 0, 12) for summary in results.values()}) == 1


def test_a_barrier_and_an_unknown_link_have_no_bound() -> None:
    barrier = summaries("barrier", 1.0, 0, 2, Route(links=(LINK, LINK), ranks=2))
    unknown = summaries("allreduce", 1.0, 8, 2, Route(links=(LINK, None), ranks=2))

    assert barrier["barrier"].bound is None
    assert {summary.bound for summary in unknown.values()} == {None}
