"""A link of a known rate is read as that rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cluster.clusters import Cluster

WITHIN = 0.02


def test_one_way_of_100_mb_agrees_with_the_bound(lab: Cluster) -> None:
    run = lab.bench("p2p", metrics=["oneway_time"], sizes="100MB", iterations=7)
    received = next(s for s in run.summary() if s.params["rank"] == 1)

    assert received.share == pytest.approx(1.0, abs=WITHIN)
    assert received.bound == pytest.approx(100e6 / (1448 / 1538 * 125e6))


def test_iperf_agrees_with_the_bound(lab: Cluster) -> None:
    run = lab.bench("iperf", iterations=3, seconds=1)

    for summary in run.summary():
        assert summary.share == pytest.approx(1.0, abs=WITHIN)
