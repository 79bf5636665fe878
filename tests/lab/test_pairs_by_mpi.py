"""Pairs of hosts by an allreduce of MPI: two ranks that one of the hosts starts on both."""

import pytest

from cluster.orchestration.cluster import Cluster
from cluster.orchestration.fleet_check import judge_fleet
from cluster.providers.lab.network import alter
from tests.conftest import command


@pytest.mark.usefixtures("tools")
def test_an_allreduce_of_two_hosts_has_one_rate_for_both_directions(lab: Cluster) -> None:
    run = lab.bench("pairs", rounds=1, alone=0, allreduce=1 << 24, milliseconds=100)
    verdict = judge_fleet(run)

    forward, back = run.measurements
    assert [(m.metric, m.params["source"], m.params["target"]) for m in (forward, back)] == [
        ("allreduce", 0, 1),
        ("allreduce", 1, 0),
    ]
    assert forward.values == back.values
    assert 0 < forward.values[0] <= 125e6  # the link's rate; 16 MiB are far more than its burst
    assert (verdict.verdict, verdict.limit) == ("HEALTHY", None)


@pytest.mark.usefixtures("tools")
def test_ranks_that_cannot_reach_one_another_are_a_reason(lab: Cluster) -> None:
    """Host 1 loses its link when all is ready: the test ends, and says why it has no value."""
    lab.bench("pairs", rounds=1, alone=0, milliseconds=50)
    alter(lab.machines[1], "cut")
    try:
        run = lab.bench("pairs", rounds=1, alone=0, allreduce=65536, milliseconds=100)
    finally:
        alter(lab.machines[1], "heal")

    assert [m.values for m in run.measurements] == [(), ()]
    assert all(m.params.get("failed") or m.params.get("skipped") for m in run.measurements)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("allreduce", "--metric allreduce has no size"),
        ("allreduce:much", "'much' is not a size"),
        ("luck", "There are: bandwidth, latency, allreduce:SIZE"),
    ],
)
def test_metrics_that_cannot_be(home: object, metric: str, message: str) -> None:
    words = ("--provider", "sim", "--option", "fabric=leafspine:2x2", "--metric", metric)

    assert message in command("check", *words, status=2).stderr
