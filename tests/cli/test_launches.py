"""Several launches of one benchmark: how many, what is shown, and one answer for all."""

import io
import re
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.cli import measurement, progress
from cluster.cli.console import SafeConsole
from cluster.cli.measurement import LAUNCHES, BenchOptions, Request, count_launches
from cluster.cli.progress import JobProgress
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Progress
from cluster.orchestration.ab_test import trials
from cluster.orchestration.cluster import Cluster
from cluster.runs import store
from cluster.runs.run import Run
from tests.conftest import answer, command, runs_folder
from tests.reports.test_page import saved
from tests.snapshots import Snapshot

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
    snapshot: Snapshot, one_host: cluster.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LAUNCHES, "2")
    assert count_launches(one_host, "collectives", BenchOptions()) == 2
    monkeypatch.setenv(LAUNCHES, "two")
    with snapshot.raises(SpecError):
        count_launches(one_host, "p2p", BenchOptions())


@pytest.mark.usefixtures("tools")
def test_two_launches_end_in_one_answer() -> None:
    result = command("bench", "collectives", "--operations=barrier", "--launches=2", "--iters=20")

    lines = result.stdout.splitlines()
    assert "cluster connect collectives" in lines[0]
    assert str(runs_folder()) in lines[1]
    assert len(list(runs_folder().glob("collectives/*"))) == 2


@pytest.mark.usefixtures("tools")
def test_json_has_the_medians_of_the_launches_and_every_run() -> None:
    result = answer("bench", "p2p", *QUICK, "--launches=2")

    assert [Path(run).parent.name for run in result["runs"]] == ["p2p", "p2p"]
    assert result["run"] == result["runs"][-1]
    assert [row["n"] for row in result["summaries"]] == [2]
    medians = [answer("show", Path(run).name)["summaries"][0]["median"] for run in result["runs"]]
    assert result["summaries"][0]["median"] == pytest.approx(sum(medians) / 2)


def test_no_launches_are_refused(snapshot: Snapshot) -> None:
    snapshot(command("bench", "p2p", *QUICK, "--launches=0", status=2).stderr)
    refused = command("bench", "p2p", *QUICK, "--launches=2", "--detach", status=2).stderr
    snapshot(refused)


def test_the_progress_of_an_ab_is_that_of_all_its_launches(
    snapshot: Snapshot,
    one_host: cluster.Cluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each launch is half done when it says so."""

    def half(c: Cluster, options: BenchOptions, live: JobProgress, _: str, /, **more: Any) -> Run:
        time = 1e9 + len(list(runs_folder().glob("ab/*")))
        folder = saved("ab", when=time, condition=more["condition"])
        live.started(c, folder)
        live.progress(Progress(done=1, total=2, what="latency 8 B"))
        return store.read(folder)

    monkeypatch.setattr(measurement, "_bench", half)
    monkeypatch.setattr(progress, "BETWEEN_REPORTS", 0.0)
    pair = trials("window=32,64", "p2p")
    measurement.alternate(
        {trial.name: one_host for trial in pair},
        Request("p2p", {}, BenchOptions(launches=5)),
        pair,
        [],
    )

    output = capsys.readouterr().out
    assert re.findall(r"\[ *(\d+)%\] launch (\d+) of 10, latency 8 B", output) == [
        (str(10 * number - 5), str(number)) for number in range(1, 11)
    ]
    snapshot(output.splitlines()[-1])


def test_the_bar_is_of_all_launches(
    one_host: cluster.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of four are done and half of the third: 62.5%."""
    screen = io.StringIO()
    monkeypatch.setattr(
        progress, "console", lambda **_: SafeConsole(file=screen, force_terminal=True, width=80)
    )
    with JobProgress(stderr=False, launches=4) as live:
        for _ in range(3):
            live.started(one_host, Path("run"))
            live.progress(Progress(done=1, total=2, what="latency 8 B"))

    last = screen.getvalue().split("launch 3 of 4, latency 8 B")[-1]
    assert "62%" in re.sub(r"\x1b\[[\d;]*m", "", last)
