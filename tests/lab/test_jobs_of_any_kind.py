"""Jobs on real hosts: across them, through a cut network, and after any process is killed."""

import errno
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.core.errors import ClusterError, HostErrors, ProvisionError
from cluster.core.model.hosts import Machine
from cluster.core.model.jobs import TaskState
from cluster.orchestration.cluster import Cluster
from cluster.orchestration.jobs import job as job_module
from cluster.orchestration.jobs.job import Job
from cluster.providers import lab as lab_provider
from cluster.providers.lab import LabProvider
from cluster.remote.parallel import start
from tests.conftest import PATIENCE, ROOT, answer, command, run_script, until


@pytest.fixture
def c(lab: Cluster) -> Iterator[Cluster]:
    """The shared lab, on which no job is left."""
    yield lab
    for job in lab.jobs.values():
        job.stop()


@pytest.mark.usefixtures("own_labs")
@pytest.mark.parametrize(
    ("example", "pattern"),
    [
        ("adder", r"1\.mpi\.adder: the sum is 47185920\.0"),
        ("beside_a_training", r"\{'board': 'running', .*\}\nbest: step 8 loss 0\.1"),
        ("notebook", r"notebook is at http://127\.0\.0\.1:32331\n\d+ lines"),
        ("parameter_servers", r"(worker \d ends near \[ 3\. -2\.\]\n){2}worker .*"),
        ("sweep", r"the least is -0\.690, at x = 3\.0"),
    ],
)
def test_the_examples_run_across_hosts(example: str, pattern: str) -> None:
    result = run_script(str(ROOT / "examples" / f"{example}.py"), "lab")

    assert re.fullmatch(pattern, result.stdout.strip())
    assert answer("ls") == []


FILE = """
name = "file"
provider = "lab"
setup = "hostname > own"
fetch = {"worker:own" = "results"}
down = "when done"

[groups]
ps = 1
worker = 2

[jobs.serve]
command = "exec python3 -m http.server 48771"
on = "ps"

[jobs.work]
command = "python3 -c 'import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read())' \
http://$CLUSTER_IPS_PS:48771/own >> own"
on = "worker"
after = "serve:48771"

[jobs.count]
command = "wc -l < own >> own"
on = "worker"
after = "work"
"""


@pytest.mark.usefixtures("own_labs")
def test_a_launch_file_with_groups_is_run_across_hosts(tmp_path: Path) -> None:
    """The file of a server is read from the other group, and then that of each host counted."""
    (tmp_path / "file.toml").write_text(FILE)
    command("launch", str(tmp_path / "file.toml"))
    texts = {path.parent.name: path.read_text() for path in (tmp_path / "results").glob("*/own")}

    assert texts == {f"{n}.worker.file": f"file-{n}\nb'file-0\\n'\n2\n" for n in (1, 2)}
    assert answer("ls") == []


@pytest.mark.usefixtures("own_labs")
def test_groups_of_a_lab_of_which_one_host_cannot_be_made_leave_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make, kinds = lab_provider._machine, list[str]()

    def refuse_last(files: Any, spec: Any, number: int, *rest: Any) -> Machine:
        kinds[:] = [resource.kind for resource in LabProvider().find("two")]
        if number == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return make(files, spec, number, *rest)

    monkeypatch.setattr(lab_provider, "_machine", refuse_last)
    with pytest.raises(ProvisionError, match=os.strerror(errno.ENOSPC)):
        cluster.launch("two", provider="lab", groups={"ps": {"hosts": 1}, "worker": {"hosts": 2}})

    assert {"host 0", "host 1", "host 2"} <= {*kinds}
    assert LabProvider().find("two") == ()
    assert answer("ls") == []


def test_groups_of_own_hosts_are_used_together_or_nothing_is_left_there(
    lab: Cluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over SSH; the last host of the second group does not exist."""
    access = [machine.access for machine in lab.machines]
    assert access[0]
    assert access[1]
    (home.parent / ".ssh").mkdir(exist_ok=True)
    (home.parent / ".ssh" / "config").write_text(f"IdentityFile {access[0].key}\n")
    names = [f"{entry.user}@{entry.host}:{entry.port or 22}" for entry in access if entry]

    def launch(*hosts: str) -> Cluster:
        return cluster.launch(
            "ours",
            provider="ssh",
            groups={"ps": {"hosts": 1}, "worker": {"hosts": len(hosts) - 1}},
            options={"hosts": ",".join(hosts), "trust": "first-use"},
        )

    with launch(*names) as c:
        job = c.start("hostname; echo $CLUSTER_GROUP $CLUSTER_IPS_PS", hosts="worker")
        job.wait()
        assert [line.text for line in job.lines()] == ["shared-1", f"worker {c.hosts[0].ip}"]
    monkeypatch.setattr("cluster.providers.READY_WITHIN", 2.0)
    with pytest.raises(ClusterError, match=r"2\.worker\.ours"):
        launch(*names, "nowhere.invalid")
    assert [row["name"] for row in answer("ls")] == ["shared"]
    assert lab.run("ls -d .cluster-ours", check=False)["0.mpi.shared"].status != 0


def test_tasks_run_on_their_hosts_with_the_packages_of_benchmarks(c: Cluster) -> None:
    line = "hostname; python3 -c 'import numpy, os; print(os.environ[\"CLUSTER_NODE_IPS\"])'"
    job = c.start(line, name="where")
    job.wait()
    texts = {
        host.name: [line.text for line in job.lines() if line.host == host.name] for host in c.hosts
    }

    addresses = " ".join(host.ip for host in c.hosts)
    assert texts == {f"{n}.mpi.shared": [f"shared-{n}", addresses] for n in (0, 1)}


@pytest.mark.usefixtures("own_labs")
def test_a_host_behind_a_cut_is_unreachable_and_its_task_goes_on() -> None:
    with cluster.launch("cut", provider="lab", hosts=2) as c:
        job = c.start("echo before; sleep 2; echo after", name="through")
        until(lambda: len(list(job.lines(follow=False))) == 2, "both first lines")
        command("lab", "cut", "cut", "1")
        until(lambda: job.state == "unreachable", "the cut")
        assert isinstance(job.states()["1.mpi.cut"], ClusterError)
        command("lab", "cut", "heal", "1")
        job.wait()

        assert sorted((line.rank, line.text) for line in job.lines()) == [
            (rank, text) for rank in (0, 1) for text in ("after", "before")
        ]


AGAIN = 'echo "$CLUSTER_RESTART of $RANK"; [ $CLUSTER_RESTART = 1 ] || exec sleep 9871'


@pytest.mark.usefixtures("own_labs")
def test_a_job_that_loses_several_hosts_at_once_is_whole_again_or_each_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_module, "GIVE_UP", 2.0)
    with cluster.launch("several", provider="lab", hosts=4) as c:
        job = c.start(AGAIN, name="train", restarts=1)
        until(lambda: len(list(job.lines(follow=False))) == 4, "all first lines")
        for number in "13":
            command("lab", "several", "cut", number)
        waited = start(c.jobs["train"].wait)
        until((c.disk.journal.folder / "restart-train").exists, "it is started again")
        for number in "13":
            command("lab", "several", "heal", number)
        waited.result(PATIENCE)

        again = c.jobs["train"]
        assert sorted(line.text for line in again.lines()) == [f"1 of {rank}" for rank in range(4)]
        (attempt,) = again.record.attempts
        assert (sorted(attempt.lost), attempt.replaced) == (["1.mpi.several", "3.mpi.several"], ())
        ids = c.run("pgrep -f '[s]leep 9871'", check=False).values()
        assert [r.stdout for r in ids] == [""] * 4  # also where the first start was cut off

        last = c.start("sleep 9872", name="last")
        for number in "12":
            command("lab", "several", "kill", number)
        with pytest.raises(HostErrors) as failure:
            last.wait()
        texts = [str(error) for error in failure.value.exceptions]
        assert [[n for n in range(4) if f"{n}.mpi.several" in text] for text in texts] == [[1], [2]]
        states = {name: getattr(state, "state", "") for name, state in last.states().items()}
        assert {name for name, state in states.items() if state == "running"} == {
            *("0.mpi.several", "3.mpi.several"),
        }


def test_more_jobs_are_followed_than_a_connection_has_sessions(c: Cluster) -> None:
    """An OpenSSH server allows 10 sessions on a connection by default."""
    host = c.hosts[0]
    jobs = [host.start("echo before; sleep 3; echo after", name=f"follow-{n}") for n in range(14)]
    with ThreadPoolExecutor(len(jobs)) as pool:
        texts = list(pool.map(lambda job: [line.text for line in job.lines()], jobs))

    assert texts == [["before", "after"]] * len(jobs)


CLIENT = """
import cluster, time
c = cluster.attach("matrix")
for number in range(100):
    name = f"job-{number % 6}"
    try:
        c.start("while :; do echo .; sleep 0.1; done", name=name, grace=0.5)
    except cluster.SpecError:  # it has lost a host, and goes on on others
        c.jobs[name].stop()
    for job in c.jobs.values():
        job.state
"""


@pytest.mark.usefixtures("own_labs")
def test_whatever_is_killed_the_states_are_true_and_nothing_is_left() -> None:
    """Clients, tmux servers and supervisors are killed at random moments."""
    chance = random.Random(39)
    kills = 60 if os.environ.get("CLUSTER_TESTS_LONG") else 9
    hosts = 8 if os.environ.get("CLUSTER_TESTS_LONG") else 2
    with cluster.launch("matrix", provider="lab", hosts=hosts) as c:
        c.install()
        for _ in range(kills // 3):
            client = subprocess.Popen([sys.executable, "-c", CLIENT])
            time.sleep(chance.uniform(0.5, 4))
            client.kill()
            client.wait()
            host = chance.choice(list(c.hosts))
            host.run("tmux kill-server", check=False)
            time.sleep(chance.uniform(0, 0.5))
            kill = "for f in .cluster-matrix/jobs/*/*/pid; do read p t < $f; kill -9 $p; done"
            chance.choice(list(c.hosts)).run(kill, check=False)
        client = subprocess.Popen([sys.executable, "-c", CLIENT])
        until(lambda: len(c.jobs) >= 1, "a job")
        client.kill()
        client.wait()
        for job in c.jobs.values():
            until(partial(has_begun, job), "it began, or never will")
            for name, state in job.states().items():
                assert isinstance(state, TaskState)
                words = SUPERVISED.format(folder=folder_of(job, name))
                alive = c.hosts[name].run(words)[name].stdout.strip() == "yes"
                assert (state.state == "running") == alive, (name, state)
        assert {job.name for job in c.jobs.values() if job.runs_on()} == c.jobs.running().keys()
        for job in c.jobs.values():
            job.stop()
        counts = c.run("grep -lzs '^CLUSTER_TASK=' /proc/[0-9]*/environ | wc -l")
        assert {result.stdout.strip() for result in counts.values()} == {"0"}


SUPERVISED = "kill -0 $(cut -d ' ' -f 1 {folder}/pid) 2> /dev/null && echo yes || echo no"


def has_begun(job: Job) -> bool:
    return job.state != "starting"


def folder_of(job: Job, host: str) -> str:
    return next(task.folder for task in job.record.tasks if task.host == host)
