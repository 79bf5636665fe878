"""`bench --lottery`: real hosts are made, measured and ended several times, and nothing is left."""

import os
import signal

import pytest

from cluster.providers.lab import LabProvider
from cluster.runs import store
from tests.background import Background
from tests.conftest import answer, command, runs_folder

pytestmark = pytest.mark.usefixtures("own_labs", "faulty")
DRAW = ("bench", "faulty", "drawn", "--provider=lab", "--lottery")


def test_each_draw_has_machines_of_its_own() -> None:
    reply = answer(*DRAW, "2", "--launches=2")
    runs = [store.read(store.find(runs_folder(), run)) for d in reply["draws"] for run in d["runs"]]

    assert [run.record.condition for run in runs] == ["draw 1", "draw 1", "draw 2", "draw 2"]
    assert len({run.record.launch_of for run in runs}) == 2
    assert [row["metric"] for row in reply["series"]] == ["nothing"] * 2  # one of each rank
    assert reply["series"][0]["draws"] == [[2.0, 2.0], [2.0, 2.0]]
    assert not reply["series"][0]["differs"]
    assert reply["series"][0]["best"][1]["gain"] == 0
    assert all(draw["cost"]["seconds"] > 0 for draw in reply["draws"])
    assert LabProvider().names() == ()


def test_a_job_that_fails_ends_the_lottery_and_the_machines() -> None:
    failed = command(*DRAW, "2", "--how=raise", status=1)
    assert "rank 1 had enough" in failed.stderr
    assert "Draw 2 of 2" not in failed.stdout
    assert LabProvider().names() == ()


def test_ctrl_c_ends_the_machines_too() -> None:
    with Background(*DRAW, "2", "--how=hang") as running:
        running.wait_for("drawn: 2 ranks")
        os.killpg(running.process.pid, signal.SIGINT)
        status, _ = running.end()
    assert status == 130
    assert LabProvider().names() == ()


def test_a_cluster_that_runs_is_not_ended_for_it() -> None:
    command("up", "drawn", "--provider=lab")
    refused = command(*DRAW, "2", status=2).stderr
    assert "cluster down drawn" in refused
    assert LabProvider().names() == ("drawn",)
