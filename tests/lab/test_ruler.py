"""A link of a known rate is read as that rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import cluster
from cluster.analysis.bounds import BELIEVABLE
from tests.conftest import command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.clusters import Cluster
    from cluster.runs import Run

WITHIN = 0.02


def test_one_way_of_100_mb_agrees_with_the_bound(lab: Cluster) -> None:
    run = lab.bench("p2p", metrics=["oneway_time"], sizes="100MB", iterations=7)
    received = next(s for s in run.summary() if s.params["rank"] == 1)

    assert received.share == pytest.approx(1.0, abs=WITHIN)
    assert received.bound == pytest.approx(100e6 / (1448 / 1538 * 125e6))


def test_iperf_agrees_with_the_bound(lab: Cluster) -> None:
    run = lab.bench("iperf", iterations=3, seconds=1)

    assert [summary.metric for summary in run.summary()] == ["forward", "reverse"]
    for summary in run.summary():
        assert summary.share == pytest.approx(1.0, abs=WITHIN)


def best_shares(run: Run) -> dict[str, float]:
    """Give, for each metric, the share of its bound that the best repetition reached."""
    slowest: dict[str, Sequence[float]] = {}
    for m in run.measurements:
        known = slowest.get(m.metric, m.values)
        slowest[m.metric] = [max(pair) for pair in zip(m.values, known, strict=True)]
    shares = {}
    for summary in run.summary():
        if summary.metric in slowest and summary.bound is not None:
            best = min(slowest[summary.metric])
            moved = next(m.bytes for m in run.measurements if m.metric == summary.metric)
            bound = moved / summary.bound if summary.unit == "B/s" else summary.bound
            shares[summary.metric] = bound / best
    return shares


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("overlay", ["", "vxlan"])
def test_a_slow_link_and_an_overlay_cost_what_they_cost(overlay: str) -> None:
    """An overlay of VXLAN takes 50 bytes of each packet."""
    options = {"rate": "100mbit", **({"overlay": overlay} if overlay else {})}
    with cluster.launch("slow", provider="lab", options=options) as c:
        p2p = c.bench("p2p", metrics=["bandwidth"], sizes="256KiB", iterations=3, warm_up=1)
        iperf = c.bench("iperf", metrics=["forward"], iterations=2, seconds=1)
        one_way = c.bench(
            "collectives", operations="bcast,reduce", sizes="20MB", iterations=2, warm_up=0
        )
        # Large, so that what a shaper lets pass at once does not count.
        both_ways = c.bench(
            "collectives",
            operations="allreduce,allgather,alltoall",
            sizes="10MB",
            iterations=2,
            warm_up=0,
        )

    data = 1500 - 52 - (50 if overlay else 0)
    bound = 100e6 / 8 * data / 1538
    [of_p2p], [of_iperf] = p2p.summary(), iperf.summary()
    assert of_p2p.bound == of_iperf.bound == pytest.approx(bound)
    assert best_shares(p2p) == {"bandwidth": pytest.approx(1.0, abs=WITHIN)}
    assert best_shares(one_way) == dict.fromkeys(
        ("bcast", "reduce"), pytest.approx(1.0, abs=WITHIN)
    )
    # MPI may let one direction wait for the other, which halves them; nothing doubles them.
    assert max(best_shares(both_ways).values()) < BELIEVABLE
    assert min(best_shares(both_ways).values()) > 0.2
    best = max(value for m in iperf.measurements for value in m.values)
    assert best / bound == pytest.approx(1.0, abs=WITHIN)


@pytest.mark.usefixtures("own")
def test_a_slowed_host_shows() -> None:
    """It is a tenth as fast as its link was said to be."""
    with cluster.launch("tenth", provider="lab", options={"rate": "1gbit"}) as c:
        command("lab", "tenth", "slow", "1")
        run = c.bench("p2p", metrics=["bandwidth"], sizes="256KiB", iterations=3, warm_up=1)

    assert best_shares(run) == {"bandwidth": pytest.approx(0.1, abs=WITHIN)}


@pytest.mark.usefixtures("own")
def test_a_link_that_is_faster_than_was_said_is_flagged() -> None:
    """The wrong rate is given on purpose: 1 Gbit/s, said to be 100 Mbit/s."""
    with cluster.launch("wrong", provider="lab", options={"rate": "100mbit"}) as c:
        for host in "01":
            command("lab", "wrong", "slow", host, "--rate", "1gbit")
        run = c.bench("p2p", metrics=["bandwidth"], sizes="256KiB", iterations=3, warm_up=1)

    [summary] = run.summary()
    assert (summary.share or 0) > BELIEVABLE
    assert "do not believe it" in command("show", "wrong").stdout
