"""What is up: listed, connected to, and taken down."""

import os
from pathlib import Path

import libtmux
import pytest

from cluster.cli.commands import down
from cluster.core.errors import ProvisionError
from cluster.providers.local import LocalProvider
from tests.conftest import COMMAND, answer, command, sessions, until
from tests.snapshots import Snapshot


def test_ls_status_and_down(snapshot: Snapshot, tools: None) -> None:
    del tools
    command("bench", "p2p", "a1", "--metrics=latency", "--sizes=8", "--iters=9")
    command("bench", "p2p", "a2", "--metrics=latency", "--sizes=8", "--iters=9")

    assert [row["name"] for row in answer("ls")] == ["a2", "a1"]
    assert "a1" in command("ls").stdout
    (job,) = answer("status", "a1")
    assert (job["name"], job["state"], job["exit_status"]) == ("bench-p2p", "done", 0)
    snapshot(command("down", "a1").stdout)
    snapshot(command("down", "--all", status=2).stderr)
    assert sessions() == ["a2"]
    snapshot(command("down", "--all", "-y").stdout)
    assert answer("ls") == []
    snapshot(command("down", "--all", "-y").stdout)
    snapshot(command("down", "a1", status=2).stderr)
    snapshot(command("down", status=2).stderr)


def test_connect_finds_the_newest_match(snapshot: Snapshot, tools: None) -> None:
    del tools
    for name in ("first", "second"):
        command("up", name)

    snapshot(command("connect").stdout)
    snapshot(command("connect", "irs").stdout)
    snapshot(command("connect", "0.mpi.first").stdout)
    snapshot(command("connect", "127.0.0").stdout)
    refused = command("connect", "third", status=2)
    snapshot(refused.stderr)


def test_connect_attaches_on_a_terminal(tools: None) -> None:
    """A person sees the exchange in the session."""
    del tools
    command("bench", "p2p", "--metrics=latency", "--sizes=8", "--iters=9")
    viewer = libtmux.Server(socket_name="viewer")
    terminal = viewer.new_session(
        "terminal", x=120, y=40, window_command=f"env -u TMUX {COMMAND} connect p2p"
    )
    pane = terminal.active_pane
    assert pane is not None
    try:
        until(
            lambda: "Process 0 latency 8 B" in "\n".join(pane.capture_pane()),
            "the line of the rank is on the screen",
        )
    finally:
        viewer.kill()


def test_connect_switches_inside_tmux(
    snapshot: Snapshot, tools: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session inside a session would be refused by tmux."""
    del tools
    command("up", "p2p")
    monkeypatch.setenv("TMUX", "/some/socket,1,0")

    snapshot(command("connect", "p2p", "--print").stdout)


def test_newest_is_what_was_launched_last(snapshot: Snapshot, tools: None) -> None:
    """Not what was touched last."""
    del tools
    for name in ("older", "newer"):
        command("up", name)
    command("run", "older", "--", "true")

    snapshot(command("connect").stdout)


def test_down_takes_what_there_is(snapshot: Snapshot, tools: None) -> None:
    """A name that does not exist is said, once the others are down."""
    del tools
    command("bench", "p2p", "--metrics=latency", "--sizes=8", "--iters=9")

    result = command("down", "nothing", "p2p", status=2)
    snapshot(result.stdout)
    snapshot(result.stderr)
    assert sessions() == []


def test_a_journal_of_another_version_hides_no_other_cluster(tools: None) -> None:
    del tools
    command("bench", "p2p", "--metrics=latency", "--sizes=8", "--iters=9")
    other = Path(os.environ["CLUSTER_STATE"]) / "other"
    other.mkdir()
    (other / "journal.jsonl").write_text('{"type":"of another version"}\n')

    assert {row["name"]: row["status"] for row in answer("ls")} == {
        "p2p": "done",
        "other": "unreadable",
    }


def test_down_goes_on_past_a_cluster_that_cannot_be_taken_down(
    snapshot: Snapshot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever types `--all` wants nothing left up but what cannot be helped."""
    for name in ("good", "bad"):
        command("up", name)
    destroy = LocalProvider.destroy

    def fail(self: LocalProvider, name: str) -> None:
        if name == "bad":
            raise ProvisionError("bad is stuck.")
        destroy(self, name)

    monkeypatch.setattr(LocalProvider, "destroy", fail)
    with snapshot.raises(ProvisionError):
        down.command(every=True, yes=True)

    assert [row["name"] for row in answer("ls")] == ["bad"]
