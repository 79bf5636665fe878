"""A link of a known rate is read as that rate.

Whatever else this machine does makes a repetition slower, never faster: the best one is judged.
scripts/bench judges the median.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cluster.clusters import Cluster

WITHIN = 0.02


def test_one_way_of_100_mb_agrees_with_the_bound(lab: Cluster) -> None:
    run = lab.bench("p2p", metrics=["oneway_time"], sizes="100MB", iterations=7)
    received = next(s for s in run.summary() if s.params["rank"] == 1)
    times = next(m.values for m in run.measurements if m.rank == 1)

    assert received.bound == pytest.approx(100e6 / (1448 / 1538 * 125e6))
    assert received.bound
    assert received.bound / min(times) == pytest.approx(1.0, abs=WITHIN)


def test_iperf_agrees_with_the_bound(lab: Cluster) -> None:
    run = lab.bench("iperf", iterations=3, seconds=1)

    bounds = {summary.metric: summary.bound or 0.0 for summary in run.summary()}
    assert [m.metric for m in run.measurements] == ["forward", "reverse"]
    for m in run.measurements:
        assert bounds[m.metric] / max(m.values) == pytest.approx(1.0, abs=WITHIN)
