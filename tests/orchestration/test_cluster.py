"""The library: launch, bench, down; the same as the command, in Python."""

import fcntl
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.agent.scratch import scratch_of
from cluster.core.model.results.measurements import Progress
from cluster.core.state import journal
from cluster.remote.sessions import jobs
from cluster.remote.sessions.jobs import MpiJob
from cluster.testing import FakeHosts
from tests.conftest import processes, runs_folder, sessions, until
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("tools")


@pytest.fixture
def played() -> Iterator[FakeHosts]:
    """Hosts that play a script, where no rank is the subject."""
    with FakeHosts() as hosts:
        yield hosts


def test_a_with_block_measures_and_leaves_nothing() -> None:
    with cluster.launch("lib", provider="local", hosts=2) as c:
        run_ = c.bench("p2p", metrics=["latency"], sizes=[8, 64], iterations=30)
        assert sessions() == ["lib"]

    assert sessions() == []
    assert journal.names() == ()
    assert not (Path(os.environ["CLUSTER_STATE"]) / "lib").exists()
    assert run_.status == "done"
    assert [m.params["size"] for m in run_.measurements] == [8, 64]
    assert all(len(m.values) == 30 for m in run_.measurements)
    assert [s.params for s in run_.summary()] == [{"size": 8}, {"size": 64}]
    assert run_.summary()[0].n == 30


def test_without_with_it_stays_until_down(snapshot: Snapshot, played: FakeHosts) -> None:
    c = cluster.launch("stays", provider="fake", hosts=2)
    c.bench("p2p", metrics="latency", sizes="8", iterations=9)

    assert list(played.made) == ["stays"]
    assert [m.name for m in cluster.attach("stays").machines] == ["0.mpi.stays", "1.mpi.stays"]
    c.down()
    assert played.made == {}
    with snapshot.raises(cluster.SpecError):
        cluster.attach("stays")


def test_a_check_that_cannot_be_judged_keeps_no_cluster_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_run: object) -> None:
        raise ValueError("a defect of ours")

    monkeypatch.setattr("cluster.orchestration.fleet_check.judge_check", fail)
    c = cluster.launch("unjudged", provider="local", hosts=2)
    c.bench("pairs", rounds=1, alone=0, detach=True)
    c.down()

    assert sessions() == []
    assert journal.names() == ()


def test_an_exception_in_the_block_takes_it_down(played: FakeHosts) -> None:
    def measures_and_fails() -> None:
        with cluster.launch("oops", provider="fake", hosts=2) as c:
            c.bench("p2p", metrics="latency", sizes=[8], iterations=9)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        measures_and_fails()

    assert played.made == {}
    assert journal.names() == ()


def test_several_benchmarks_on_one_cluster() -> None:
    """Each has a folder of its own, and a later one does not disturb an earlier one."""
    with cluster.launch("many", hosts=2) as c:
        first = c.bench("p2p", metrics="latency", sizes=[8], iterations=9)
        second = c.bench("p2p", metrics="latency", sizes=[8], iterations=10)

    assert first.folder != second.folder
    assert [s.n for r in (first, second) for s in r.summary()] == [9, 10]


class Recorder(cluster.Listener):
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.done: list[float] = []
        self.folders: list[Path] = []

    def started(self, cluster: cluster.Cluster, folder: Path) -> None:
        del cluster
        self.folders.append(folder)

    def output(self, line: str) -> None:
        self.lines.append(line)

    def progress(self, progress: Progress) -> None:
        self.done.append(progress.done / progress.total)


def test_a_listener_hears_how_it_goes() -> None:
    recorder = Recorder()
    with cluster.launch("heard", hosts=2) as c:
        run_ = c.bench("p2p", metrics="oneway_time", sizes="1MB", iterations=5, listener=recorder)

    assert recorder.folders == [run_.folder]
    assert len(recorder.lines) == 10
    assert all("transferred 1 MB in" in line for line in recorder.lines)
    assert recorder.done == sorted(recorder.done)
    assert recorder.done[-1] == 1.0


@pytest.mark.usefixtures("faulty")
def test_a_job_error_carries_the_tails_and_the_run_keeps_the_values() -> None:
    with (
        cluster.launch("fails", hosts=2) as c,
        pytest.raises(cluster.JobError, match="exit status 1") as failed,
    ):
        c.bench("faulty", how="raise")

    assert "ready 1" in failed.value.stdout
    assert "ValueError: rank 1" in failed.value.stderr
    [folder] = runs_folder().glob("fails/*")
    assert json.loads((folder / "run.json").read_text())["status"] == "failed"


def test_what_is_refused_leaves_an_earlier_job_alone(played: FakeHosts) -> None:
    with cluster.launch("calm", provider="fake", hosts=2) as c:
        c.bench("p2p", metrics="latency", sizes=[8], iterations=9)
        for params in ({"sizes": "8:4"}, {"speed": 3}, {"iterations": "many"}):
            with pytest.raises(cluster.SpecError):
                c.bench("p2p", **params)
        assert list(played.sessions) == ["calm"]
        assert len(list(runs_folder().glob("calm/*"))) == 1


def test_values_are_on_disk_while_the_job_runs() -> None:
    """A killed controller loses nothing that was measured."""
    counts: list[int] = []

    class Looks(cluster.Listener):
        folder = Path()

        def started(self, cluster: cluster.Cluster, folder: Path) -> None:
            del cluster
            self.folder = folder

        def progress(self, progress: Progress) -> None:
            del progress
            path = self.folder / "measurements.jsonl"
            if path.exists():
                status = json.loads((self.folder / "run.json").read_text())["status"]
                assert status == "running"
                counts.append(len(path.read_text().splitlines()))

    with cluster.launch("early", hosts=2) as c:
        sizes = [8, 2**21, 2**22, 2**22 + 1]
        c.bench("p2p", metrics="bandwidth", sizes=sizes, iterations=40, listener=Looks())

    assert any(0 < lines < 4 for lines in counts)


def test_the_user_may_remove_a_runs_folder_while_it_runs(played: FakeHosts) -> None:
    """Taking the cluster down still works, and leaves nothing."""
    c = cluster.launch("gone", provider="fake", hosts=2)
    run_ = c.bench("p2p", metrics="oneway_time", sizes="50MB", iterations=1000, detach=True)
    assert run_.status == "running"
    shutil.rmtree(run_.folder)

    c.down()
    assert played.made == {}
    assert not any(played.sessions.values())
    assert journal.names() == ()


def test_half_a_launch_can_be_taken_down() -> None:
    """The process died between the intent and the machines."""
    book = journal.for_cluster("half")
    book.append(journal.Intended(spec=cluster.ClusterSpec(name="half"), at=0.0))

    cluster.attach("half").down()
    assert journal.names() == ()


def test_a_failure_to_start_closes_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """tmux may refuse for its own reasons; the folder says so."""
    c = cluster.launch("nostart", hosts=2)
    monkeypatch.setenv("TMUX_TMPDIR", "/dev/null")
    with pytest.raises(cluster.ShellError, match="nostart"):
        c.bench("p2p", metrics="latency", sizes=[8])

    [folder] = runs_folder().glob("nostart/*")
    record = json.loads((folder / "run.json").read_text())
    assert record["status"] == "failed"
    assert "nostart" in record["reason"]


class Interrupts(cluster.Listener):
    """Presses Ctrl-C as soon as the job was started."""

    def started(self, cluster: cluster.Cluster, folder: Path) -> None:
        del cluster, folder
        raise KeyboardInterrupt


def test_ctrl_c_before_the_first_look_stops_the_ranks() -> None:
    c = cluster.launch("early", hosts=2)
    with pytest.raises(KeyboardInterrupt):
        c.bench("p2p", metrics="oneway_time", sizes="50MB", iterations=1000, listener=Interrupts())

    [folder] = runs_folder().glob("early/*")
    assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"
    assert not processes("p2p.py")


def test_down_waits_for_a_start_that_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """And stops what was started: nothing is left, and both sides say what happened."""
    start, flock = MpiJob.start, fcntl.flock
    downs: list[threading.Thread] = []
    waits = threading.Event()

    def noted_flock(handle: int, operation: int) -> None:
        try:
            flock(handle, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            if operation & fcntl.LOCK_NB:
                raise
            waits.set()
            flock(handle, operation)

    def slow_start(job: MpiJob, *rest: Any) -> None:
        monkeypatch.setattr(fcntl, "flock", noted_flock)
        downs.append(threading.Thread(target=cluster.attach("race").down))
        downs[0].start()
        until(lambda: waits.is_set() or not downs[0].is_alive(), "it waits, or has ended")
        assert waits.is_set(), "it did not wait"
        start(job, *rest)

    monkeypatch.setattr(MpiJob, "start", slow_start)
    c = cluster.launch("race", hosts=2)
    with pytest.raises(cluster.JobError, match="race"):
        c.bench("p2p", metrics="oneway_time", sizes="50MB", iterations=1000)

    downs[0].join()
    assert sessions() == []
    assert journal.names() == ()
    assert not processes("p2p.py")


def test_a_cluster_that_was_taken_down_meanwhile_starts_nothing(snapshot: Snapshot) -> None:
    c = cluster.launch("meanwhile", hosts=2)
    cluster.attach("meanwhile").down()
    with snapshot.raises(cluster.ClusterError):
        c.bench("p2p", metrics="latency", sizes=[8])

    assert sessions() == []
    assert journal.names() == ()


def test_a_cluster_that_costs_money_is_not_replaced(snapshot: Snapshot) -> None:
    book = journal.for_cluster("dear")
    book.append(journal.Intended(spec=cluster.ClusterSpec(name="dear"), at=0.0, costs=True))
    book.append(journal.Created(machines=()))

    with snapshot.raises(cluster.SpecError):
        cluster.launch("dear", hosts=2)
    assert journal.names() == ("dear",)


def test_a_word_that_an_option_does_not_take_is_refused_with_those_that_it_does() -> None:
    with pytest.raises(cluster.SpecError) as refused:
        cluster.launch("other", provider="lab", options={"source": "disk"})

    assert "auto, index, controller" in str(refused.value)


@pytest.mark.usefixtures("faulty")
@pytest.mark.parametrize("remedy", ["down", "another job"])
def test_what_mpi_leaves_in_shared_memory_when_it_is_killed_is_removed(remedy: str) -> None:
    """Segments, and the session's folder: both are in a folder of the job's own."""
    c = cluster.launch("killed", hosts=2)
    c.bench("faulty", how="hang", detach=True)
    folder = c.job()[0].folder
    scratch = Path(scratch_of(folder))
    until(lambda: c.logs().count("ready") == 2, "both ranks are ready")
    assert list(scratch.glob("sm_segment.*")) or list(scratch.glob("vader_segment.*"))
    assert list(scratch.glob("ompi.*"))
    assert scratch.stat().st_mode & 0o777 == 0o700
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink() == Path(folder):
                os.kill(int(process.name), signal.SIGKILL)
    assert scratch.exists()
    orphan = Path(scratch_of(f"{folder}-of-another-cluster"))  # which nobody takes down any more
    orphan.mkdir()
    (orphan / "job").write_text(f"{folder}-of-another-cluster")

    if remedy == "down":
        c.down()
    else:
        c.bench("p2p", metrics="latency", sizes=[8], iterations=9)
        assert not Path(scratch_of(c.job()[0].folder)).exists()
        assert not orphan.exists()
        c.down()
    assert not scratch.exists()
    assert not orphan.exists()


def test_a_job_leaves_nothing_in_shared_memory() -> None:
    with cluster.launch("tidy", hosts=2) as c:
        c.bench("p2p", metrics="latency", sizes=[8], iterations=9, detach=True)
        scratch = Path(scratch_of(c.job()[0].folder))
        c.wait()
        assert not scratch.exists()


def test_a_folder_of_somebody_else_in_shared_memory_is_neither_used_nor_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever guesses the name may have put a link there."""
    trap = tmp_path / "trap"
    (trap / "mine").mkdir(parents=True)
    (tmp_path / "link").symlink_to(trap)
    monkeypatch.setattr(jobs, "scratch_of", lambda _: str(tmp_path / "link"))
    with cluster.launch("trapped", hosts=2) as c:
        c.bench("p2p", metrics="latency", sizes=[8], iterations=9)
    assert list(trap.iterdir()) == [trap / "mine"]
    assert (tmp_path / "link").is_symlink()


def test_a_cluster_whose_checkout_was_deleted_is_rebuilt_on_request(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its jobs would start a Python that is gone."""
    checkout = home / "checkout" / "bin"
    checkout.mkdir(parents=True)
    (checkout / "python3").symlink_to(sys.executable)
    with monkeypatch.context() as patch:
        patch.setattr("sys.executable", str(checkout / "python3"))
        cluster.launch("mine", hosts=2)
    c = cluster.launch("mine", hosts=2)
    assert {machine.bin for machine in c.machines} == {str(checkout)}

    shutil.rmtree(checkout)
    with pytest.raises(cluster.SpecError, match="checkout/bin") as refused:
        cluster.launch("mine", hosts=2)
    assert "--replace" in refused.value.remedy
    new = cluster.launch("mine", hosts=2, replace=True)
    assert {machine.bin for machine in new.machines} == {str(Path(sys.executable).parent)}
    new.down()
