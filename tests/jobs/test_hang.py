"""`cluster hang NAME JOB`: which rank of a job that runs the others wait for, on real MPI."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import cluster
from cluster.measure.kernels import compile_kernel
from tests.conftest import answer, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.orchestration.cluster import Cluster
    from cluster.orchestration.jobs.job import Job

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


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_kernel("profile", tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def c() -> Iterator[Cluster]:
    with cluster.launch("hangs", provider="local", hosts=1) as made:
        yield made


def start(c: Cluster, library: Path, what: str) -> Job:
    """Start two ranks, and wait until both have entered the sixth all-reduce, or one of them."""
    c.hosts[0].write(PROGRAM, "hang.py")
    line = f"mpirun --oversubscribe -n 2 {shlex.quote(sys.executable)} hang.py {what}"
    env = {
        "LD_PRELOAD": str(library),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
    }
    job = c.start(line, name=what, env=env)
    folder = Path(c.hosts[0].run("pwd").stdout.strip())
    until(lambda: len(list(folder.glob("mpi_calls.?"))) == 2, "both ranks call MPI")
    return job


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("sleeps", "rank_absent"),
        ("reads", "rank_absent"),
        ("stopped", "process_stopped"),
    ],
)
def test_the_rank_that_the_others_wait_for(c: Cluster, library: Path, what: str, kind: str) -> None:
    start(c, library, what)

    def asked() -> object:
        found = answer("hang", c.name, what, status=None)
        return found if found["answer"]["verdict"] == "hung" else None

    found = until(asked, "the wait is long")
    cause = found["answer"]["cause"]
    assert cause["kind"] == kind
    assert [one["rank"] for one in cause["stragglers"]] == [1]
    assert cause["stuck"]["name"] == "MPI_Allreduce"
    assert cause["stuck"]["waiting"] == [0]
    assert (Path(found["evidence"]) / "answer.json").exists()


def test_a_job_that_goes_on_is_not_hung(c: Cluster, library: Path) -> None:
    job = start(c, library, "nothing")
    found, _ = job.look_for_hang()

    assert found.verdict == "slow"
    assert found.rate > 1
