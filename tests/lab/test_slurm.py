"""Real Slurm on real hosts: a lab with its controller and workers, used from outside."""

from __future__ import annotations

import pytest

from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.providers.lab import LabProvider
from tests.conftest import answer, command

SLURM = ("--provider", "slurm", "--hosts", "3", "--option", "lab=nodes")


@pytest.fixture
def possible_slurm(own: None) -> None:
    """Skip, with the reason, where no lab with Slurm can be made."""
    try:
        LabProvider().plan(ClusterSpec(name="lab", provider="lab", options={"slurm": "1"}))
    except SpecError as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("possible_slurm", "home")
def test_a_fleet_behind_a_scheduler() -> None:
    """60 s: eight hosts with Slurm start, and three of them get what benchmarks need.

    Ranks are started by srun and by mpirun, pairs are tested by SSH and by steps of srun, and each
    time nothing is left in the queue.
    """
    command("up", "nodes", "--provider", "lab", "--hosts", "8", "--option", "slurm=1")
    quick = ("--metrics", "latency", "--sizes", "8", "--iterations", "100")

    command("up", "mine", *SLURM, "--option", "reach=ssh")
    for starter in ("srun", "mpirun"):
        run = answer("bench", "p2p", "--name", "mine", *quick, "--starter", starter)
        assert run["status"] == "done"
    wrong = command("bench", "p2p", "--name", "mine", *quick, "--starter", "srun:pmi2", status=None)
    assert wrong.returncode != 0
    assert "srun started it with --mpi=pmi2" in wrong.stderr
    assert "srun:pmix" in wrong.stderr
    command("down", "mine")

    command("up", "mine", *SLURM, "--option", "reach=srun")
    found = answer("check", "mine", "--milliseconds", "50", "--alone", "1", status=None)
    assert found["rounds"] > 0
    said = command("down", "mine").stdout
    assert "0 left" in said
    assert "Nothing was forgotten" in command("gc").stdout
    command("down", "nodes")
