"""What a command or a job left on a host that stays is ended by `down`, and named."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import cluster
from cluster.core.errors import ShellError
from cluster.remote.sessions.leftovers import MARK, Leftovers, end_leftovers
from cluster.remote.shells.local import LocalShell
from tests.background import Background
from tests.conftest import command, path_of, processes, until, write_program
from tests.contracts.sshd import befriend, sshd
from tests.snapshots import Snapshot

__all__ = ["sshd"]
pytestmark = pytest.mark.usefixtures("tools")
STARTS = {  # each a sleep of its own length
    "in the foreground": ("exec sleep 9871", "sleep 9871"),
    "in a session of its own": ("setsid sleep 9872 & sleep 9871", "sleep 9872"),
    "a daemon": ("(cd /; setsid nohup sleep 9873 > /dev/null 2>&1 &) ; sleep 9871", "sleep 9873"),
    "deaf to SIGTERM": ("trap '' TERM; sleep 9874; exit", "sleep 9874"),
    "without an environment": ("env -i sleep 9875; exit", "sleep 9875"),
}


def pids_of(line: str) -> list[int]:
    return processes(line.replace(" ", "\0"))


@pytest.fixture(params=["local", "ssh"])
def hosts(request: pytest.FixtureRequest, home: Path) -> str:
    """A cluster of hosts that stay."""
    words = ["up", "stays", "--provider", request.param]
    if request.param == "ssh":
        friend = befriend(request.getfixturevalue("sshd"), home)
        words += ["--option", f"hosts={friend}", "--option", "trust=first-use"]
    command(*words)
    return "stays"


@pytest.mark.parametrize(("script", "line"), STARTS.values(), ids=STARTS)
def test_what_a_killed_controller_started_is_ended_and_named(
    hosts: str, script: str, line: str
) -> None:
    with Background("run", hosts, "--on", "0", "--", "sh", "-c", script) as background:
        [pid] = until(lambda: pids_of(line), "it runs")
        background.process.kill()
        background.process.wait()
    assert pids_of(line) == [pid]

    output = command("down", hosts).stdout
    assert f"0.mpi.stays: {pid} {line}\n" in output
    assert "0 left" in output
    assert pids_of(line) == []


def test_what_the_ranks_of_a_job_left_is_ended_and_what_others_run_is_not() -> None:
    """A daemon of each rank, whose job ended well."""
    script = "setsid sleep 9876 > /dev/null 2>&1 < /dev/null &"
    with cluster.launch("other", hosts=1) as other, cluster.launch("stays", hosts=2) as stays:
        other.run(["sh", "-c", "setsid sleep 9878 > /dev/null 2>&1 < /dev/null &"])
        stays.bench("program", command=script)
        assert len(pids_of("sleep 9876")) == 2
        stays.down()
        assert pids_of("sleep 9876") == []
        assert len(stays.leftovers["0.mpi.stays"].ended) == 2
        assert len(pids_of("sleep 9878")) == 1
    assert pids_of("sleep 9878") == []


def test_a_terminal_server_that_a_command_started_is_not_ended_but_named(hosts: str) -> None:
    """What a person started in it inherits the variable, too."""
    command(
        "run", hosts, "--on", "0", "--", "tmux", "new-session", "-d", "-s", "mine", "sleep 9879"
    )
    daemon = "setsid sleep 9880 > /dev/null 2>&1 < /dev/null &"
    subprocess.run(["tmux", "new-session", "-d", "-s", "other", f"{daemon} sleep 9881"], check=True)
    lines = ["sleep 9879", "sleep 9880", "sleep 9881"]
    pids = [until(partial(pids_of, line), line)[0] for line in lines]

    output = command("down", hosts).stdout
    for pid, line in zip(pids, lines, strict=True):
        assert pids_of(line) == [pid]
        assert f"on 0.mpi.stays: {pid} {line}\n" in output
        os.kill(pid, signal.SIGKILL)
    assert "0 left" not in output
    assert "Ended" not in output


def test_down_in_a_command_of_the_cluster_does_not_end_itself() -> None:
    command("up", "stays", "--provider", "local", "--hosts", "1")
    inner = [sys.executable, "-m", "cluster", "down", "stays"]
    output = command("run", "stays", "--on", "0", "--", *inner).stdout
    assert "0 left" not in output


def test_any_bytes_of_a_command_line_are_shown(home: Path) -> None:
    """A shell's echo makes a NUL byte of backslash and 0, and grep prints no line beside one."""
    words = [b"sh", b"-c", b"sleep 9883; : '\\0' \xff"]
    process = subprocess.Popen(words, env={**os.environ, MARK: ".cluster-any"})
    until(lambda: pids_of("sleep 9883"), "it runs")
    lines = end_leftovers(LocalShell(), ".cluster-any").ended
    process.wait()
    assert sorted(line.partition(" ")[2] for line in lines) == [
        "sh -c sleep 9883; : '\\0' \ufffd",
        "sleep 9883",
    ]


def test_a_process_of_another_user_is_not_ended() -> None:
    """Another user's cluster on the host may have the same name, and so the same folder."""
    words = ["env", f"{MARK}=.cluster-stays", "sleep", "9882"]
    process = subprocess.Popen(words, user="nobody", group="nogroup")
    try:
        until(lambda: pids_of("sleep 9882"), "it runs")
        assert end_leftovers(LocalShell(), ".cluster-stays") == Leftovers()
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_search_that_fails_is_not_called_clean(
    snapshot: Snapshot, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where no process can be forked for it: it prints nothing, as one that finds nothing."""
    folder = Path(path_of(home / "bin", "cut", "cat", "sort", "sleep", "tr", "env"))
    write_program(folder / "grep", '#!/bin/sh\n[ "$1" = -qzxF ]\n')
    monkeypatch.setenv("PATH", str(folder))
    with snapshot.raises(ShellError):
        end_leftovers(LocalShell(), "somewhere")


def test_a_host_that_cannot_look_is_not_called_clean(
    snapshot: Snapshot, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where grep knows no -z, or is missing."""
    monkeypatch.setenv("PATH", path_of(home / "bin", "sh", "cut", "cat", "sort", "sleep", "tr"))
    with snapshot.raises(ShellError):
        end_leftovers(LocalShell(), "somewhere")
