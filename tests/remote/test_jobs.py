"""The script of a job, run as it is by a real bash."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.core.model.hosts import Machine
from cluster.core.model.results.records import JobRecord
from cluster.remote.sessions import tasks
from cluster.remote.sessions.jobs import MpiJob, script
from cluster.remote.shells.local import LocalShell
from tests.conftest import processes, run, until


def start(
    folder: Path, argv: list[str], *, timeout: float = 20.0, **env: str
) -> subprocess.CompletedProcess[str]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "job.sh"
    variables = {"PATH": str(Path(sys.executable).parent), **env}
    path.write_text(script("test", str(folder), argv, variables, timeout))
    return run("bash", str(path), status=None)


@pytest.mark.parametrize("name", ["a 0", 'a"=0"', "a'; echo foo", "a\n0", "$(exit 1)", "*"])
def test_quoting(tmp_path: Path, name: str) -> None:
    """Folder, words and variables reach the program as they are."""
    program = [sys.executable, "-c", "import os, sys; print(ascii((sys.argv[1], os.environ['X'])))"]
    result = start(tmp_path / name, [*program, name], X=name)

    assert result.returncode == 0
    assert (tmp_path / name / "stdout").read_text() == ascii((name, name)) + "\n"
    assert (tmp_path / name / "status").read_text() == "0\n"


def test_both_streams_are_kept_and_shown(tmp_path: Path) -> None:
    result = start(tmp_path, ["bash", "-c", "echo out; echo err >&2; exit 3"])

    assert result.returncode == 3
    assert result.stdout.startswith("out\n")
    assert result.stderr == "err\n"
    assert (tmp_path / "stdout").read_text() == "out\n"
    assert (tmp_path / "stderr").read_text() == "err\n"
    assert (tmp_path / "status").read_text() == "3\n"


def test_the_status_comes_after_the_last_byte(tmp_path: Path) -> None:
    """Whoever sees the status sees the whole output."""
    start(tmp_path, ["bash", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"])

    assert (tmp_path / "stdout").stat().st_size == 3_000_000


def test_variables_of_another_time_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tmux server may hold them since its start; only ours take effect."""
    monkeypatch.setenv("OMPI_MCA_btl", "of-another-time")
    monkeypatch.setenv("LD_PRELOAD_", "kept")
    start(tmp_path, ["env"], OMPI_MCA_pml="ours")
    lines = (tmp_path / "stdout").read_text().splitlines()

    assert "OMPI_MCA_pml=ours" in lines
    assert not any(line.startswith("OMPI_MCA_btl") for line in lines)
    assert "LD_PRELOAD_=kept" in lines
    assert f"PATH={Path(sys.executable).parent}:{os.environ['PATH']}" in lines


def test_the_program_reads_nothing(tmp_path: Path) -> None:
    start(tmp_path, ["cat"])

    assert (tmp_path / "status").read_text() == "0\n"


def test_the_time_limit_holds_without_us(tmp_path: Path) -> None:
    assert start(tmp_path, ["sleep", "100"], timeout=0.2).returncode == 124
    assert (tmp_path / "status").read_text() == "124\n"


def test_the_command_can_be_typed_again(tmp_path: Path) -> None:
    """A reader may copy the line from raw/job.sh."""
    argv = ["mpirun", "-np", "2", "python3", "-P", "p2p.py", '{"sizes": [8]}']
    text = script("test", str(tmp_path), argv, {}, timeout=20.0)

    assert shlex.join(argv) in text
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_job_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    """The command is gone, and the status says why, before the script ends."""
    (tmp_path / "job.sh").write_text(
        script(
            "test",
            str(tmp_path),
            ["bash", "-c", "echo ready; sleep 1000.25"],
            {"PATH": str(Path(sys.executable).parent)},
            timeout=100.0,
        )
    )
    # A shell that was itself started in the background may have left SIGINT ignored.
    words = ["env", "--default-signal", "bash", str(tmp_path / "job.sh")]
    job = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert job.stdout is not None
    until((tmp_path / "stdout").exists, "the script runs")
    assert job.stdout.readline() == "ready\n"
    job.send_signal(number)
    job.communicate(timeout=60)

    assert job.returncode == 143
    assert (tmp_path / "status").read_text() == "143\n"
    until(lambda: not processes("1000.25"), "the command is gone")


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_job_ends_although_its_watcher_was_stopped_or_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setattr(tasks, "SILENT", 1.0)
    bin_ = str(Path(sys.executable).parent)
    machine = Machine(name="m", id="m", address="127.0.0.1", shell="local", folder="", bin=bin_)  # noqa: S604
    record = JobRecord(session="m", folder=str(tmp_path), run="", benchmark="", at=0.0)
    (tmp_path / "job.sh").write_text(
        "echo $$ > pid; echo begun > stdout; until [ -e go ]; do sleep 0.1; done; echo 5 > status\n"
    )
    watchers: list[int] = []

    def interfere(_: object) -> None:
        watchers.extend(processes(f"watch\0{tmp_path}"))
        for watcher in watchers:
            os.kill(watcher, number)
        (tmp_path / "go").touch()

    with subprocess.Popen(["bash", str(tmp_path / "job.sh")], cwd=tmp_path):
        assert MpiJob(record, {"m": LocalShell(machine)}, machine).watch(interfere) == 5
    assert len(watchers) == 1
    assert processes(f"watch\0{tmp_path}") == []
