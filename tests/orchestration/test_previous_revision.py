"""What the revision before the packages wrote is still read: journals and a run folder."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from cluster.core import journal
from cluster.core.model.hosts import Link
from cluster.orchestration.state import ClusterState
from tests.conftest import ROOT, answer, command, runs_folder

PREVIOUS = ROOT / "tests" / "previous"


def put(provider: str, name: str) -> None:
    """Put a journal of that revision where ours are."""
    state = Path(os.environ["CLUSTER_STATE"])
    folder = state / name
    folder.mkdir(parents=True, mode=0o700)
    text = (PREVIOUS / provider / "journal.jsonl").read_text()
    words = {"@STATE@": str(state), "@RUNS@": str(runs_folder()), "@BIN@": sys.prefix + "/bin"}
    for word, here in words.items():
        text = text.replace(word, here)
    (folder / "journal.jsonl").write_text(text)


def test_a_journal_of_a_lab_folds_into_a_state() -> None:
    put("lab", "oldlab")
    state = ClusterState.from_entries(journal.for_cluster("oldlab").entries())

    assert state is not None
    assert state.spec.provider == "lab"
    assert state.spec.options == {"rate": "1gbit"}
    assert state.launched
    assert [machine.id for machine in state.machines] == ["oldlab-0", "oldlab-1"]
    link = state.machines[0].link
    assert isinstance(link, Link)
    assert (link.rate, link.mtu) == (125e6, 1500)


@pytest.mark.usefixtures("tools")
def test_a_cluster_that_was_left_up_is_listed_measured_and_taken_down() -> None:
    put("local", "old")
    [row] = answer("ls")
    assert (row["name"], row["provider"], row["hosts"]) == ("old", "local", 2)

    made = answer("bench", "p2p", "--name=old", "--metrics=latency", "--sizes=8", "--iters=20")
    assert made["status"] == "done"
    assert "0 left" in command("down", "old", "-y").stdout
    assert answer("ls") == []


def test_a_run_folder_is_shown() -> None:
    there = runs_folder() / "old" / "20261122T084322Z-p2p"
    shutil.copytree(PREVIOUS / "run", there)
    shown = answer("show", str(there))

    [latency] = shown["summaries"]
    assert (latency["metric"], latency["n"], latency["unit"]) == ("latency", 50, "s")
