"""Jobs across real hosts that go wrong: who is lost is named, values come home, nothing runs on."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import cluster
from cluster.core.errors import JobError, Unreachable
from cluster.core.state import journal
from cluster.orchestration.bench.collect import Listener
from cluster.orchestration.cluster import Cluster, attach
from cluster.providers.lab.network import alter
from cluster.remote.ssh import connection
from cluster.runs import store
from cluster.runs.run import Run
from tests.background import Background
from tests.conftest import answer, command, processes, runs_folder, until
from tests.lab.conftest import must, ranks_of

DOWN_WITHIN = 20.0  # seconds; 10 are promised, and this machine may be busy
NOTICED_WITHIN = 30.0  # seconds; 15 are promised, and this machine may be busy
FAULTY = ("bench", "faulty", "--provider=lab", "shared", "--option=rate=1gbit")


class Once(Listener):
    """Does something as soon as a line of the ranks was heard, and keeps what is noticed."""

    def __init__(self, line: str, do: Callable[[], object]) -> None:
        self.line, self.do = line, do
        self.did_at = self.noticed_at = 0.0
        self.noticed = ""

    def output(self, line: str) -> None:
        """Do it, once."""
        if self.line in line and not self.did_at:
            self.did_at = time.monotonic()
            threading.Thread(target=self.do).start()

    def notice(self, line: str) -> None:
        """Keep what and when, but for how long the job will take, which a busy machine decides."""
        if "It will take" not in line:
            self.noticed, self.noticed_at = line, time.monotonic()


def newest() -> Run:
    return store.read(store.find(runs_folder(), "latest"))


def values() -> dict[int, tuple[float, ...]]:
    return {measured.rank: measured.values for measured in newest().measurements}


def is_gone(c: Cluster) -> None:
    def look() -> bool:
        try:
            return not ranks_of(c, "faulty.py")
        except Unreachable:  # neighbours learn within a second that a link is back
            return False

    until(look, "no rank is left on any host")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time out sooner than a person would, where a host is gone."""
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT", 3.0)


@pytest.fixture
def hanging(lab: Cluster, faulty: None) -> Iterator[Background]:
    """A job whose two ranks sleep, each on its host, and the command that waits for it."""
    with Background(*FAULTY, "--how=sleep") as background:
        background.wait_for("ready")
        until(
            lambda: command("logs", lab.name, status=None).stdout.count("ready") == 2,
            "both ranks are ready",
        )
        yield background
    command("lab", lab.name, "heal", "1")
    attach(lab.name).bench_jobs.end_all("The test is over.")


@pytest.mark.timed
@pytest.mark.usefixtures("own_labs", "faulty", "impatient")
def test_one_of_eight_that_dies_is_named_and_the_values_of_the_others_come_home() -> None:
    c = cluster.launch("eight", provider="lab", hosts=8)
    trigger = Once("ready 1", lambda: command("lab", "eight", "kill", "5"))
    with pytest.raises(JobError, match=r"5\.mpi\.eight") as failed:
        c.bench("faulty", how="hang", timeout=60, listener=trigger)

    assert trigger.noticed.startswith("[cluster] 5.mpi.eight ")
    assert trigger.noticed_at - trigger.did_at < NOTICED_WITHIN
    assert [n for n in range(8) if f"{n}.mpi.eight" in str(failed.value)] == [5]
    assert values().keys() <= {0, 1, 2, 3, 4, 6, 7}
    assert set(values().values()) == {(1.0, 2.0, 3.0)}
    alive = {name: shell for name, shell in c.shells().items() if name != "5.mpi.eight"}
    look = ["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -cx '[f]aulty[.]py' || :"]
    until(lambda: all(s.run(look).stdout == "0\n" for s in alive.values()), "no rank is left")

    start = time.monotonic()
    assert "; 0 left" in command("down", "eight").stdout
    assert time.monotonic() - start < NOTICED_WITHIN


@pytest.mark.timed
def test_a_link_that_is_cut_ends_the_job_in_time(hanging: Background, lab: Cluster) -> None:
    """The command says at once who is lost, and ends with what the other host has measured."""
    command("lab", lab.name, "cut", "1")
    start = time.monotonic()
    hanging.wait_for("[cluster] 1.mpi.shared does not answer any more")
    assert time.monotonic() - start < NOTICED_WITHIN
    status, output = hanging.end()

    assert status == 1
    assert "1.mpi.shared" in output
    assert "0.mpi.shared" not in output
    assert values() == {0: (1.0, 2.0, 3.0)}
    command("lab", lab.name, "heal", "1")
    is_gone(lab)


def test_a_link_that_is_cut_and_healed_costs_a_job_nothing(lab: Cluster) -> None:
    def cut_and_heal() -> None:
        alter(lab.machines[1], "cut")  # without a process: neither comes late on a busy machine
        threading.Event().wait(3)  # what happens to the network takes its time
        alter(lab.machines[1], "heal")

    trigger = Once("Process", cut_and_heal)
    run = lab.bench(
        "p2p", metrics=["oneway_time"], sizes="1MB", iterations=750, timeout=600, listener=trigger
    )

    assert (run.status, trigger.noticed) == ("done", "")
    assert {summary.n for summary in run.summary()} == {750}
    assert max(max(m.values) for m in run.measurements) > 2.0


@pytest.mark.timed
@pytest.mark.usefixtures("own_labs", "faulty", "impatient")
def test_the_first_host_is_out_of_reach_and_comes_back_or_dies() -> None:
    """It is named, with what to type; the ranks of the others do not run on without it."""
    c = cluster.launch("first", provider="lab")
    trigger = Once("ready 1", lambda: command("lab", "first", "cut", "0"))
    with pytest.raises(Unreachable, match=r"0\.mpi\.first") as error:
        c.bench("faulty", how="hang", timeout=60, listener=trigger)

    assert time.monotonic() - trigger.did_at < NOTICED_WITHIN
    assert "cluster wait first && cluster fetch first" in error.value.remedy
    until(lambda: "faulty.py" not in must(c, 1, "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'"), "end")
    command("lab", "first", "heal", "0")
    command("wait", "first", status=None)
    assert command("fetch", "first", status=1).stderr
    assert newest().status == "failed"
    assert "1.mpi.first" in newest().record.reason

    command("lab", "first", "kill", "0")
    assert answer("ls")[0]["status"] == "failed"
    c.down()
    assert journal.names() == ()


@pytest.mark.timed
@pytest.mark.usefixtures("own_labs", "faulty")
def test_a_cluster_whose_leading_host_is_cut_off_says_so_and_goes_down_in_time() -> None:
    c = cluster.launch("lost", provider="lab")
    trigger = Once("ready 1", lambda: command("lab", "lost", "cut", "0"))
    with pytest.raises(Unreachable, match=r"0\.mpi\.lost"):
        c.bench("faulty", how="hang", timeout=60, listener=trigger)

    assert newest().status == "running"
    since = r"Unreachable since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: 0\.mpi\.lost, which leads"
    assert re.match(since, newest().record.reason)
    start = time.monotonic()
    assert "; 0 left" in command("down", "lost").stdout
    assert time.monotonic() - start < DOWN_WITHIN
    assert newest().status == "failed"
    assert re.match(since, newest().record.reason)
    assert 1 in values()


@pytest.mark.usefixtures("own_labs", "faulty", "impatient")
def test_a_host_that_dies_before_or_after_the_job() -> None:
    c = cluster.launch("dying", provider="lab")
    c.bench("faulty", detach=True)
    assert attach("dying").wait() == 0
    command("lab", "dying", "kill", "1")
    with pytest.raises(JobError, match=r"1\.mpi\.dying: root@"):
        attach("dying").fetch()

    assert values() == {0: (1.0, 2.0, 3.0)}
    with pytest.raises(cluster.ShellError, match=r"1\.mpi\.dying: "):
        c.bench("faulty")


@pytest.mark.usefixtures("faulty")
def test_the_job_outlives_its_launcher(lab: Cluster) -> None:
    """After SIGKILL, other processes see it, follow it, wait for it and bring its values home."""
    words = ("bench", "p2p", "--provider=lab", "shared", "--option=rate=1gbit")
    launcher = Background(*words, "--metrics=oneway_time", "--sizes=10MB", "--iters=20")
    launcher.wait_for("Process")
    launcher.process.kill()
    launcher.process.communicate()

    assert answer("status", lab.name)[-1]["state"] in ("running", "done")
    followed = command("logs", "-f", lab.name).stdout
    assert followed.count("Process 1 transferred 10 MB") >= 20
    assert "cluster fetch shared" in command("wait", lab.name).stdout
    record = answer("fetch", lab.name)
    assert (record["status"], [s["n"] for s in record["summaries"]]) == ("done", [20, 20])
    assert answer("status", lab.name)[-1]["state"] == "done"


def test_ctrl_c_stops_the_ranks_on_every_host(hanging: Background, lab: Cluster) -> None:
    assert ranks_of(lab, "faulty.py").keys() == {"0.mpi.shared", "1.mpi.shared"}
    os.killpg(hanging.process.pid, signal.SIGINT)
    status, _ = hanging.end()

    assert status == 130
    assert newest().record.status == "interrupted"
    assert ranks_of(lab, "faulty.py") == {}
    assert values() == {0: (1.0, 2.0, 3.0), 1: (1.0, 2.0, 3.0)}


def test_ctrl_c_ends_a_command_on_every_host(lab: Cluster) -> None:
    with Background("run", lab.name, "--", "echo ready; exec sleep 9891.5") as running:
        for _ in lab.machines:
            running.wait_for("ready")
        os.killpg(running.process.pid, signal.SIGINT)
        assert running.end()[0] == 130
    assert processes("9891.5") == []


@pytest.mark.timed
def test_a_session_that_is_killed_there_is_noticed(hanging: Background, lab: Cluster) -> None:
    start = time.monotonic()
    must(lab, 0, "tmux kill-session -t =shared")
    status, _ = hanging.end()

    assert time.monotonic() - start < NOTICED_WITHIN
    assert status == 1
    is_gone(lab)


@pytest.mark.usefixtures("faulty")
@pytest.mark.parametrize(
    ("how", "reports"),
    # That a rank is gone is reported by its host or by its peer, whichever is first.
    [("raise", ["rank 1 had enough"]), ("kill", ["SIGKILL", "Socket closed"])],
)
def test_a_rank_that_fails_on_another_host(lab: Cluster, how: str, reports: list[str]) -> None:
    result = command(*FAULTY, f"--how={how}", status=1)

    assert any(report in result.stderr for report in reports)
    is_gone(lab)
