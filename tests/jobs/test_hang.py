"""`cluster hang NAME JOB`: which rank of a job that runs the others wait for, on real MPI."""

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import cluster
from cluster.core.errors import ClusterError, ShellError, Unreachable
from cluster.core.model.hang import HostReport, Snapshot
from cluster.core.model.hosts import Completed
from cluster.orchestration.cluster import Cluster
from cluster.orchestration.jobs.hang import look_on
from cluster.orchestration.jobs.job import Job
from cluster.runs.dumps import read_dumps
from tests.conftest import answer, command, until
from tests.contracts.sshd import befriend, sshd
from tests.prepared import IDLE
from tests.providers.kubernetes_here import OPTIONS, kubernetes, kubernetes_server
from tests.slurm_here import slurm_here

__all__ = ["kubernetes", "kubernetes_server", "slurm_here", "sshd"]
TORCH_PYTHON = os.environ.get("CLUSTER_TORCH_PYTHON", sys.executable)
pytestmark = pytest.mark.usefixtures("tools", "compiler")
PROGRAM = """
import os, signal, sys, time
import numpy as np
from mpi4py import MPI
c = MPI.COMM_WORLD
for _ in range(5):
    c.Allreduce(np.zeros(4), np.zeros(4))
if c.rank == 1 and sys.argv[1] == "sleeps":
    time.sleep(600)
if c.rank == 1 and sys.argv[1] == "reads":
    os.mkfifo("input")
    open("input").read()
if c.rank == 1 and sys.argv[1] == "stopped":
    os.kill(os.getpid(), signal.SIGSTOP)
while True:
    c.Allreduce(np.zeros(4), np.zeros(4))
    time.sleep(0.05)
"""


@pytest.fixture
def c() -> Iterator[Cluster]:
    with cluster.launch("hangs", provider="local", hosts=1) as handle:
        yield handle


@pytest.fixture(params=["slurm", "ssh", "kubernetes"])
def far(
    request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    options = {"reach": "srun", "time": "5m"}
    if request.param == "slurm":
        monkeypatch.setenv("SLURM_CONF", str(request.getfixturevalue("slurm_here").conf))
    elif request.param == "kubernetes":
        request.getfixturevalue("kubernetes")
        options = OPTIONS
    else:
        friend = befriend(request.getfixturevalue("sshd"), home)
        options = {"hosts": friend, "trust": "first-use", "bin": str(Path(sys.executable).parent)}
    with cluster.launch("far", provider=request.param, hosts=1, options=options) as handle:
        yield handle


def start(c: Cluster, library: Path, case: str) -> Job:
    """Start two ranks, and wait until both have entered the sixth all-reduce, or one of them."""
    c.hosts[0].write(PROGRAM, "hang.py")
    folder = Path(c.hosts[0].run("pwd").stdout.strip())
    words = ["mpirun", "--oversubscribe", "--wdir", str(folder), "-n", "2"]
    env = {
        "LD_PRELOAD": str(library),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        **{f"OMPI_MCA_{name}": value for name, value in IDLE.items()},
    }
    job = c.start([*words, sys.executable, "hang.py", case], name=case, env=env)
    until(lambda: len(list(folder.glob("mpi_calls.?"))) == 2, "both ranks call MPI")
    return job


@pytest.mark.parametrize(
    ("case", "kind"),
    [("sleeps", "rank_absent"), ("reads", "rank_absent"), ("stopped", "process_stopped")],
)
def test_the_rank_that_the_others_wait_for(c: Cluster, library: Path, case: str, kind: str) -> None:
    start(c, library, case)

    def look() -> object:
        result = answer("hang", c.name, case, status=None)
        return result if result["answer"]["verdict"] == "hung" else None

    result = until(look, "the wait is long")
    cause = result["answer"]["cause"]
    assert cause["kind"] == kind
    assert [straggler["rank"] for straggler in cause["stragglers"]] == [1]
    assert cause["stuck"]["name"] == "MPI_Allreduce"
    assert cause["stuck"]["waiting"] == [0]
    assert (Path(result["evidence"]) / "answer.json").exists()


def test_a_job_on_other_hosts(far: Cluster, library: Path) -> None:
    """By a rank that was stopped, which is seen at once."""
    start(far, library, "stopped")

    def hung() -> Any:
        result = answer("hang", far.name, "stopped", status=None)
        return result["answer"]["cause"] if result["answer"]["verdict"] == "hung" else None

    cause = until(hung, "it is stopped")
    assert (cause["kind"], cause["confidence"]) == ("process_stopped", "certain")
    assert [straggler["rank"] for straggler in cause["stragglers"]] == [1]
    assert (cause["stuck"]["name"], cause["stuck"]["waiting"]) == ("MPI_Allreduce", [0])
    far.jobs["stopped"].stop()


def test_a_job_that_goes_on_is_not_hung(c: Cluster, library: Path) -> None:
    job = start(c, library, "nothing")
    hang, _ = job.look_for_hang()

    assert hang.verdict == "slow"
    assert hang.rate > 1


TORCH = """
import datetime, time, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=600))
x = torch.ones(4)
for _ in range(3):
    dist.all_reduce(x)
if dist.get_rank() == 1:
    time.sleep(600)
dist.all_reduce(x)
"""
STUCK = """
import os, time
def wait_for_all():
    time.sleep(600)
def load():
    time.sleep(600)
print("begun", flush=True)
load() if os.environ["RANK"] == "1" else wait_for_all()
"""


def test_a_job_without_a_line_is_ended_with_the_answer() -> None:
    """Its Python stacks are in the evidence: nothing was installed or imported for that."""
    with cluster.launch("quiet", provider="local", hosts=2) as c:
        c.hosts.write(STUCK, "stuck.py")
        job = c.start("python3 stuck.py", name="stuck", hang_after=3, grace=1)
        with pytest.raises(ClusterError) as error:
            job.wait(timeout=60)

        assert job.state == "stopped"
        assert "3 s" in str(error.value)
        stacks = sorted(Path(job.record.folder).glob("hang/*/2/1.*/stack_rank1.txt"))
        assert " in load" in stacks[0].read_text()
        states = stacks[0].parent / "processes.json"
        assert "sleeping" in states.read_text()
        assert "/stacks/" not in states.read_text()  # what we have it write is nothing it reads


def test_a_job_that_prints_is_not_ended() -> None:
    with cluster.launch("loud", provider="local", hosts=1) as c:
        line = "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.5; done"
        c.start(line, name="loud", hang_after=2).wait(timeout=60)
        assert not list(Path(c.jobs["loud"].record.folder).glob("hang"))
        command("hang", "loud", status=2)


def test_a_rank_of_torch_that_is_late() -> None:
    python = TORCH_PYTHON
    if subprocess.run([python, "-c", "import torch"], check=False, capture_output=True).returncode:
        pytest.skip("no torch")
    with cluster.launch("late", provider="local", hosts=3) as c:
        c.hosts.write(TORCH, "late.py")
        job = c.start([python, "late.py"], name="late", hang_after=600)
        until(lambda: _frames(job), "rank 1 sleeps, and the others wait")
        hang, _ = job.look_for_hang()

        assert hang.cause is not None
        assert [straggler.rank for straggler in hang.cause.stragglers] == [1]
        assert hang.cause.stuck is not None
        assert (hang.cause.stuck.name, hang.cause.stuck.waiting) == ("all_reduce", (0, 2))


def _frames(job: Job) -> bool:
    """Tell whether the ranks have come to where they stay."""
    hang, evidence = job.look_for_hang()
    texts = [path.read_text() for path in evidence.glob("2/*/stack_rank?.txt")]
    return len(hang.ranks) == 3 and sum("all_reduce" in text for text in texts) == 2


class OneAnswer:
    """A shell that gives one answer to any command."""

    def __init__(self, answer: Completed | ClusterError) -> None:
        self.answer = answer

    def run(self, words: list[str], *, timeout: float) -> Completed:
        assert words[-2:] == ["folder", "2.0"]
        assert timeout > 0
        if isinstance(self.answer, ClusterError):
            raise self.answer
        return self.answer


def looks_of(*ranks: Iterable[int]) -> Completed:
    """Return what a host says of its ranks, of eight, at each of its looks."""
    reports = [
        HostReport(
            snapshots=tuple(
                Snapshot(source="processes", rank=rank, host="n", pid=7, at=time.time())
                for rank in of_look
            ),
            size=8,
        )
        for of_look in ranks
    ]
    lines = b"\n".join(map(msgspec.json.encode, reports)).decode()
    return Completed(argv=(), status=0, stdout=lines, stderr="")


SILENT, FAILED = Unreachable("It does not answer."), ShellError("It took more than 30 s.")
BLOCKS = looks_of((0, 1), (0, 1))
GARBLED = Completed(argv=(), status=0, stdout="Welcome to this host.\n", stderr="")


@pytest.mark.parametrize(
    ("answers", "absent"),
    [
        ((BLOCKS, looks_of((2, 3), (2, 3)), FAILED, SILENT), {}),
        ((BLOCKS, GARBLED), {}),
        (
            (BLOCKS, looks_of((2, 3), (2, 3)), SILENT, SILENT),
            {4: "2.mpi", 5: "2.mpi", 6: "3.mpi", 7: "3.mpi"},
        ),
        ((looks_of((0, 2, 4, 6), (0, 2, 4, 6)), SILENT), dict.fromkeys((1, 3, 5, 7), "1.mpi")),
        (
            (looks_of((0, 3, 5), (0, 3, 5)), SILENT, SILENT),
            dict.fromkeys((1, 2, 4, 6, 7), "1.mpi, 2.mpi"),
        ),
        (
            (looks_of((0, 1, 2, 3), (0, 1, 2)), SILENT),
            {3: "", **dict.fromkeys((4, 5, 6, 7), "1.mpi")},
        ),
        (
            (looks_of((0, 3, 5), (0, 3)), SILENT),
            {5: "", **dict.fromkeys((1, 2, 4, 6, 7), "1.mpi")},
        ),
    ],
)
def test_only_a_host_that_does_not_answer_makes_its_ranks_unreachable(
    tmp_path: Path, answers: tuple[Completed | ClusterError, ...], absent: dict[int, str]
) -> None:
    """By how the others have their ranks; one that was there at the first look is gone."""
    by_name = {f"{number}.mpi": answer for number, answer in enumerate(answers)}
    shells: Any = {name: OneAnswer(answer) for name, answer in by_name.items()}
    machines: Any = {name: SimpleNamespace(bin="bin") for name in by_name}

    look_on(shells, machines, dict.fromkeys(by_name, "folder"), tmp_path)

    snapshots, unread = read_dumps([*(tmp_path / "hang").glob("*/absent")])
    assert not unread
    states = {snap.rank: (snap.state, snap.host, snap.pid) for snap in snapshots}
    assert states == {
        rank: ("unreachable", host, 0) if host else ("gone", "n", 7)
        for rank, host in absent.items()
    }
