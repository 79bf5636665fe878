"""Several launches of one benchmark: how many, what is shown, and one answer for all."""

from __future__ import annotations

from pathlib import Path

import pytest

import cluster
from cluster.cli.launches import LAUNCHES, BenchOptions, count_launches
from cluster.core.errors import SpecError
from tests.conftest import answer, command, runs_folder

QUICK = ("--metrics=latency", "--sizes=8", "--iterations=60")


@pytest.fixture
def one_host(monkeypatch: pytest.MonkeyPatch) -> cluster.Cluster:
    monkeypatch.delenv(LAUNCHES)
    return cluster.launch("here")


def test_p2p_on_one_host_is_launched_three_times(one_host: cluster.Cluster) -> None:
    assert count_launches(one_host, "p2p", BenchOptions()) == 3
    assert count_launches(one_host, "collectives", BenchOptions()) == 1
    assert count_launches(one_host, "p2p", BenchOptions(launches=7)) == 7
    assert count_launches(one_host, "p2p", BenchOptions(detach=True)) == 1


def test_the_environment_says_how_often(
    one_host: cluster.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LAUNCHES, "2")
    assert count_launches(one_host, "collectives", BenchOptions()) == 2
    monkeypatch.setenv(LAUNCHES, "two")
    with pytest.raises(SpecError, match="CLUSTER_LAUNCHES is not a number of launches"):
        count_launches(one_host, "p2p", BenchOptions())


@pytest.mark.usefixtures("tools")
def test_two_launches_end_in_one_answer() -> None:
    said = command("bench", "collectives", "--operations=barrier", "--launches=2", "--iters=20")

    lines = said.stdout.splitlines()
    assert "2 ranks on 2 x local; to watch: cluster connect collectives" in lines[0]
    assert lines[1].startswith("Run folder: ")
    assert "Median over 2 launches" in lines
    assert "(median of 2 launches)" in lines[-1]
    assert len(list(runs_folder().glob("collectives/*"))) == 2


@pytest.mark.usefixtures("tools")
def test_json_has_the_medians_of_the_launches_and_every_run() -> None:
    shown = answer("bench", "p2p", *QUICK, "--launches=2")

    assert [Path(run).parent.name for run in shown["runs"]] == ["p2p", "p2p"]
    assert shown["run"] == shown["runs"][-1]
    assert [one["n"] for one in shown["summaries"]] == [2]
    medians = [answer("show", Path(run).name)["summaries"][0]["median"] for run in shown["runs"]]
    assert shown["summaries"][0]["median"] == pytest.approx(sum(medians) / 2)


def test_no_launches_are_refused() -> None:
    assert "--launches is not" in command("bench", "p2p", *QUICK, "--launches=0", status=2).stderr
    refused = command("bench", "p2p", *QUICK, "--launches=2", "--detach", status=2).stderr
    assert "contradict each other" in refused
