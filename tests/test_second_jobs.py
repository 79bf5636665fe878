"""A second job on a cluster: refused with who runs what, or told to take over, from any process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import cluster
from cluster.core.errors import InUse
from cluster.core.state import claims, journal
from tests.background import Background, hanging_run, no_rank_is_left, only_run, record
from tests.conftest import answer, command, run, runs_folder, sessions, until

pytestmark = pytest.mark.usefixtures("tools")
SECOND = ("bench", "faulty", "hanging")


@pytest.fixture
def hanging(faulty: None) -> Iterator[Background]:
    """A run whose ranks hang, once both have said that they are ready."""
    with hanging_run() as background:
        yield background


def newest_but(old: Path) -> Path:
    [new] = [folder for folder in runs_folder().glob("*/*") if folder != old]
    return new


def test_a_second_job_is_refused_with_who_runs_what(hanging: Background) -> None:
    """From another shell, by every command that starts a job; the first one goes on."""
    for words in (SECOND, ("run", "hanging", "--mpi", "--", "true"), ("check", "hanging")):
        message = command(*words, status=2).stderr
        assert f"process {hanging.process.pid}, since 20" in message
        assert "cluster bench faulty --how sleep hanging\n" in message
        assert "--replace" in message
    with pytest.raises(InUse, match=f"process {hanging.process.pid}"):
        cluster.attach("hanging").bench("faulty")

    assert answer("status", "hanging")[-1]["state"] == "running"
    assert record(only_run())["status"] == "running"
    assert hanging.process.poll() is None


def test_replace_ends_the_first_and_its_record_says_who_did(hanging: Background) -> None:
    old = only_run()
    command(*SECOND, "--replace")
    status, stderr = hanging.end()

    assert status == 1
    assert record(old)["status"] == "interrupted"
    assert "--replace: cluster bench" in record(old)["reason"]
    assert record(old)["reason"] in stderr
    assert record(newest_but(old))["status"] == "done"
    assert sessions() == ["hanging"]


def test_a_job_whose_process_was_killed_runs_until_it_is_ended(hanging: Background) -> None:
    """Its results can be waited for, so nothing ends it but --replace."""
    old = only_run()
    hanging.process.kill()
    hanging.process.wait()
    message = command(*SECOND, status=2).stderr

    assert f"process {hanging.process.pid}, since 20" in message
    assert "cluster connect hanging" in message
    assert answer("status", "hanging")[-1]["state"] == "running"
    command(*SECOND, "--replace")
    assert record(old)["status"] == "interrupted"
    assert record(newest_but(old))["status"] == "done"
    until(no_rank_is_left, "the ranks of both are gone")


@pytest.mark.usefixtures("faulty")
def test_a_job_that_ended_by_itself_keeps_its_own_end() -> None:
    """Nobody fetched it; the next job does."""
    command("bench", "faulty", "--detach")
    command("wait", "faulty")
    old = only_run()
    command("bench", "faulty")

    assert (record(old)["status"], record(old)["exit_status"]) == ("done", 0)
    assert record(newest_but(old))["status"] == "done"


@pytest.mark.usefixtures("faulty")
def test_of_jobs_that_start_at_once_one_runs() -> None:
    command("up", "hanging")
    words = ("bench", "faulty", "--how", "sleep", "hanging", "--detach")
    ends = [job.end() for job in [Background(*words) for _ in range(4)]]

    assert sorted(status for status, _ in ends) == [0, 2, 2, 2]
    assert all("hanging" in message for status, message in ends if status)
    assert record(only_run())["status"] == "running"
    command("down", "hanging")


@pytest.mark.parametrize("state", ["known", "of another state folder"])
def test_a_session_of_the_same_user_is_not_ended(
    hanging: Background, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host knows who started what runs there, whatever this machine knows."""
    old = only_run()
    if state != "known":
        monkeypatch.setenv("CLUSTER_STATE", str(tmp_path / "other"))
    message = command(*SECOND, status=2).stderr
    assert f"process {hanging.process.pid}, since 20" in message

    command(*SECOND, "--replace")
    hanging.end()
    assert "--replace" in record(old)["reason"]
    assert record(newest_but(old))["status"] == "done"


SESSION = """
import cluster, sys
with cluster.launch("hanging", hosts=2) as c:
    print("up", flush=True)
    c.bench("faulty")
"""


def test_a_second_python_session_leaves_the_first_ones_cluster_up(hanging: Background) -> None:
    """Its `with` block ends by the refusal, and takes nothing down."""
    result = run(sys.executable, "-c", SESSION, status=1)

    assert result.stdout == "up\n"
    assert "InUse: " in result.stderr
    assert answer("status", "hanging")[-1]["state"] == "running"
    os.killpg(hanging.process.pid, signal.SIGINT)
    hanging.end()


def test_who_lost_the_cluster_starts_nothing_more_and_leaves_it_up() -> None:
    """Between two jobs of one command, another process takes over."""
    fleet = cluster.launch("mine", hosts=2)
    with fleet.bench_jobs.claim_hosts():
        fleet.bench("program", command="true")
        failure = pytest.raises(cluster.ClusterError)
        with claims.claim(fleet.disk.journal, replace=True), failure:
            fleet.bench("program", command="true")
    assert fleet.bench_jobs.is_superseded
    assert len(list(runs_folder().glob("*/*"))) == 1
    with claims.claim(fleet.disk.journal), pytest.raises(InUse, match="mine"), fleet:
        pass
    assert journal.names() == ("mine",)
    fleet.down()


def test_a_command_keeps_the_cluster_between_its_jobs() -> None:
    fleet = cluster.launch("mine", hosts=2)
    with fleet.bench_jobs.claim_hosts():
        fleet.bench("program", command="true")
        with pytest.raises(InUse, match=f"process {os.getpid()}"):
            cluster.attach("mine").bench("program", command="true")
        fleet.bench("program", command="true")
    cluster.attach("mine").bench("program", command="true")
    fleet.down()


def test_a_claim_ends_with_its_process() -> None:
    book = cluster.launch("mine", hosts=2).disk.journal
    script = (
        "import os, signal\nfrom cluster.core.state import claims, journal\n"
        "with claims.claim(journal.for_cluster('mine')):\n"
        "    print('mine', flush=True)\n    signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"
        holder = claims.holder(book)
        assert holder is not None
        assert holder.pid == other.pid
        with pytest.raises(InUse), claims.claim(book):
            pass
        other.kill()
    assert claims.holder(book) is None
    with claims.claim(book) as claim:
        assert claim.successor() is None
