"""A link of a known rate is read as that rate."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

import cluster
from cluster.analysis.limits.link import BELIEVABLE
from cluster.orchestration.cluster import Cluster
from cluster.runs.run import Run
from tests.conftest import command

pytestmark = pytest.mark.serial  # it measures speed
WITHIN = 0.02
AT_ONCE = {"OMPI_MCA_btl_tcp_eager_limit": str(2**25)}
"""Without it MPI lets one direction wait for the other: `pitfalls.network.directions_wait`."""
LARGE = "10MB"  # so that what a shaper lets pass at once does not count
SLOW = 0.25  # Gbit/s
FASTER = (5.0,)  # Gbit/s; other tests read 1 Gbit/s
GBIT = 1e9 / 8
ATTEMPTS = 8


def test_one_way_of_100_mb_agrees_with_the_bound(lab: Cluster) -> None:
    """The median of a launch does, of one launch in eight where others use the machine, too."""
    for _ in range(ATTEMPTS):
        run = lab.bench("p2p", metrics=["oneway_time"], sizes="100MB", iterations=7)
        received = next(s for s in run.summary() if s.params["rank"] == 1)
        assert received.bound == pytest.approx(100e6 / (1448 / 1538 * 125e6))
        if (received.share or 0) >= 1 - WITHIN:
            break

    assert received.share == pytest.approx(1.0, abs=WITHIN)


def test_iperf_agrees_with_the_bound(lab: Cluster) -> None:
    rates = read(lambda: lab.bench("iperf", iterations=2, seconds=1))

    assert rates == expect(1.0, "forward", "reverse")


def read(bench: Callable[[], Run]) -> dict[str, float]:
    """Return, for each metric, the share of its bound that the best repetition reached.

    Whoever else uses the machine only makes it slower: what is not read at once is read again,
    which helps nobody to read too much.
    """
    best: dict[str, float] = {}
    for _ in range(ATTEMPTS):
        for metric, share in best_shares(bench()).items():
            best[metric] = max(share, best.get(metric, 0.0))
        if min(best.values()) >= 1 - WITHIN:
            break
    return best


def best_shares(run: Run) -> dict[str, float]:
    """Return the shares of the best repetitions of a run; the slowest rank's count."""
    slowest: dict[str, Sequence[float]] = {}
    for m in run.measurements:
        values = m.values if m.bytes else [1 / value for value in m.values]  # rates, turned over
        baseline = slowest.get(m.metric, values)
        slowest[m.metric] = [max(pair) for pair in zip(values, baseline, strict=True)]
    shares = {}
    for summary in run.summary():
        if summary.metric in slowest and summary.bound is not None:
            best = min(slowest[summary.metric])
            size = next(m.bytes for m in run.measurements if m.metric == summary.metric) or 1
            bound = size / summary.bound if summary.unit == "B/s" else summary.bound
            shares[summary.metric] = bound / best
    return shares


def expect(share: float, *metrics: str) -> dict[str, Any]:
    """Say that each metric has a share of its bound."""
    return dict.fromkeys(metrics, pytest.approx(share, abs=WITHIN))


@pytest.mark.usefixtures("own_labs")
@pytest.mark.parametrize("overlay", ["", "vxlan"])
def test_a_slow_link_and_an_overlay_cost_what_they_cost(overlay: str) -> None:
    """An overlay of VXLAN takes 50 bytes of each packet."""
    options = {"rate": f"{SLOW:g}gbit", **({"overlay": overlay} if overlay else {})}
    data = 1500 - 52 - (50 if overlay else 0)
    with cluster.launch("slow", provider="lab", options=options) as c:
        one_stream = {
            "bandwidth": partial(windows, c, "256KiB", 3),
            "forward": partial(streams, c, 2),
        }
        for metric, bench in one_stream.items():
            bounded = partial(held_against, SLOW * GBIT * data / 1538, bench)
            assert read(bounded) == expect(1.0, metric)
        one_way = partial(move, c, "20MB", 2, "bcast", "reduce")
        assert read(one_way) == expect(1.0, "bcast", "reduce")
        both_ways = ("allreduce", "allgather", "alltoall")
        assert read(partial(move, c, LARGE, 4, *both_ways, **AT_ONCE)) == expect(1.0, *both_ways)


def held_against(bound: float, bench: Callable[[], Run]) -> Run:
    """Measure, and expect a bound."""
    run = bench()
    [summary] = run.summary()
    assert summary.bound == pytest.approx(bound)
    return run


def windows(c: Cluster, size: str, iterations: int) -> Run:
    return c.bench("p2p", metrics=["bandwidth"], sizes=size, iterations=iterations, warm_up=1)


def streams(c: Cluster, iterations: int) -> Run:
    return c.bench("iperf", metrics=["forward"], iterations=iterations, seconds=1)


def move(c: Cluster, size: str, iterations: int, *operations: str, **variables: str) -> Run:
    words = {"operations": ",".join(operations), "sizes": size, "iterations": iterations}
    return c.bench("collectives", **words, warm_up=1, variables=variables)  # type: ignore[arg-type]


@pytest.mark.usefixtures("own_labs")
def test_faster_links_are_read_where_the_machine_carries_twice_as_much() -> None:
    """The slowest repetition without a shaper is what it carries, before and after."""
    rates = carried()
    for gbit in FASTER:
        before = enough(rates, gbit)
        with cluster.launch(f"fast{gbit:g}", provider="lab", options={"rate": f"{gbit}gbit"}) as c:
            shares = {name: read(partial(TOOLS[name], c, gbit)) for name in before}
        wrong = {name for name, share in shares.items() if share != expect(1.0, *share)}
        after = enough(carried(), gbit) if wrong else {}
        assert not wrong & set(after), f"{shares} at {gbit:g} Gbit/s of {before}, {after} carried"


def carried() -> dict[str, float]:
    """Return what this machine carries now, for each tool."""
    with cluster.launch("bare", provider="lab") as c:
        rates = {name: slowest(bench(c, 1.0)) for name, bench in TOOLS.items()}
    assert min(rates.values()) > 0
    return rates


def enough(rates: dict[str, float], gbit: float) -> dict[str, float]:
    """Return the tools for which that is twice a rate, and what it is."""
    return {name: rate for name, rate in rates.items() if rate >= 2 * gbit * GBIT}


TOOLS: dict[str, Callable[[Cluster, float], Run]] = {
    "p2p": lambda c, _: windows(c, "1MiB", 6),
    "iperf": lambda c, _: streams(c, 2),
    "collectives": lambda c, gbit: move(c, f"{gbit * 20:g}MB", 6, "bcast"),
}


def slowest(run: Run) -> float:
    """Return the least rate that was read, in bytes per second."""
    return min(m.bytes / v if m.bytes else v for m in run.measurements for v in m.values)


@pytest.mark.usefixtures("own_labs")
def test_a_slowed_host_shows() -> None:
    """It is a tenth as fast as its link was said to be."""
    with cluster.launch("tenth", provider="lab", options={"rate": "1gbit"}) as c:
        command("lab", "tenth", "slow", "1")
        run = windows(c, "256KiB", 3)

    assert best_shares(run) == expect(0.1, "bandwidth")


@pytest.mark.usefixtures("own_labs")
def test_a_link_that_is_faster_than_was_said_is_flagged() -> None:
    """The wrong rate is given on purpose: 1 Gbit/s, said to be 100 Mbit/s."""
    with cluster.launch("wrong", provider="lab", options={"rate": "100mbit"}) as c:
        for host in "01":
            command("lab", "wrong", "slow", host, "--rate", "1gbit")
        run = c.bench("p2p", metrics=["bandwidth"], sizes="256KiB", iterations=3, warm_up=1)

    [summary] = run.summary()
    assert (summary.share or 0) > BELIEVABLE
    assert run.judge().word == "impossible"
