"""Gates around the jobs of a real Slurm: a bad node is drained, and comes back by its mark only."""

from pathlib import Path
from unittest.mock import ANY

import pytest

import cluster
from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.orchestration.cluster import Cluster
from cluster.providers.lab import LabProvider
from cluster.providers.slurm.states import parse_nodes
from tests.conftest import command, until
from tests.lab.conftest import must, shell_of

TIMES = 20, 40, 60, 80  # seconds of a gate, one after another until it decides
SLOW, FOREIGN = 2, 3
# `//` is this machine's file system with this checkout in it, and its Python, as a site installs it
OPTIONS = {"slurm": "1", "rate": "400mbit", "root": "//"}
GATE = ("gate-slurm", "--limit", "400mbit", "--runs", "/root/runs")
DRAIN = ("--drain", "--at-most", "50%")
SETTINGS = "User root\nIdentityFile /root/.ssh/key\nIdentitiesOnly yes\n"
START = """
chmod 600 /root/.ssh/*
printf '%sSlurmctld=/root/gate\\n' Prolog Epilog >> /etc/slurm/slurm.conf
scontrol shutdown slurmctld
while kill -0 $(cat /run/slurmctld.pid) 2> /dev/null; do sleep 0.1; done
slurmctld
"""
JOB = "sbatch --parsable --output=/dev/null -N4 --wrap true"


@pytest.fixture
def slurm(own_labs: None, home: Path) -> Cluster:
    try:
        LabProvider().plan(ClusterSpec(name="nodes", provider="lab", options=OPTIONS))
    except SpecError as error:
        pytest.skip(str(error))
    lab = cluster.launch("nodes", provider="lab", hosts=4, options=OPTIONS)
    first, access = shell_of(lab, 0), lab.machines[0].access
    assert access
    first.write(Path(access.key).read_text(), "/root/.ssh/key")
    first.write(Path(access.known_hosts).read_text(), "/root/.ssh/known_hosts")
    hosts = "".join(f"Host {m.id}\nHostName {m.address}\n" for m in lab.machines)
    first.write(f"{hosts}Host *\n{SETTINGS}", "/root/.ssh/config")
    write_gate(lab, TIMES[0])
    for number in range(4):  # as pyenv and conda do
        shell_of(lab, number).write("export PATH=/usr/bin:$PATH\n", "/root/.bashrc")
    must(lab, 0, START)
    until(lambda: states(lab) == ["IDLE"] * 4, "Slurm works again")
    return lab


def write_gate(lab: Cluster, within: int, drain: tuple[str, ...] = DRAIN) -> None:
    script = command("more", "script", *GATE, *drain, "--within", f"{within}s").stdout
    shell_of(lab, 0).write(script, "/root/gate")
    must(lab, 0, "chmod +x /root/gate")


def states(lab: Cluster) -> list[str]:
    text = must(lab, 0, "scontrol --oneliner show node")
    return [node.state + "".join(node.flags) for node in parse_nodes(text)]


def drained(lab: Cluster) -> list[list[str]]:
    """Return the names of nodes that have a reason, and its first word."""
    lines = must(lab, 0, "sinfo --noheader --Node --format='%N %E'").splitlines()
    return [line.split()[:2] for line in lines if not line.endswith(" none")]


def run_job(lab: Cluster) -> tuple[str, ...]:
    """Let Slurm run a job, or refuse it, and return what its gates said, and who was drained."""
    number = must(lab, 0, JOB).strip()
    queue = f"squeue --noheader --jobs={number} --format=%r"
    until(lambda: must(lab, 0, queue).strip() in ("", "BeginTime"), "the job is over, or requeued")
    marked = [words[0] for words in drained(lab) if words[1] == f"cluster-gate:{number}:bad"]
    must(lab, 0, f"scancel {number}")
    until(lambda: not must(lab, 0, queue), "the job and its epilog are over")
    log = must(lab, 0, "cat /root/runs/gates.log").splitlines()
    return " ".join(line.split(": ")[1] for line in log if f" job {number}: " in line), *marked


def run_jobs(lab: Cluster, answer: str) -> tuple[str, ...]:
    """Let Slurm run jobs until their gates answer this, with more time for each.

    On a busy machine a gate may be UNDECIDED, and starts the job, or be sure of one direction only.
    """
    for within in TIMES:
        write_gate(lab, within)
        earlier = len(must(lab, 0, "cat /root/runs/gates.log"))
        words = run_job(lab)
        log = must(lab, 0, "cat /root/runs/gates.log")
        if answer in f"{words[0]}\n{log[earlier:]}":
            return words
        must(lab, 0, "/root/gate undo")
    raise AssertionError(log)


def srun_beside_bad(lab: Cluster, bad: str) -> str:
    """Return what a job of srun printed, whose gate found a bad node that nobody drains."""
    for within in TIMES:
        write_gate(lab, within, drain=())
        output = shell_of(lab, 0).run(("srun", "-N4", "hostname")).stdout
        log = must(lab, 0, "cat /root/runs/gates.log").splitlines()[-2:]
        if any(bad in line for line in log):
            assert "not held" in log[-1]
            return output
    raise AssertionError(log)


@pytest.mark.timed
def test_a_slow_node_is_drained_and_comes_back_by_the_mark_of_the_gate(slurm: Cluster) -> None:
    """120 s: no srun runs there, a prolog drains it, `undo` does not, an epilog keeps jobs off."""
    command("lab", "nodes", "slow", str(SLOW), "--rate", "40mbit")
    bad = f"BAD host:{SLOW} both (nodes-{SLOW})"
    assert not srun_beside_bad(slurm, bad)
    assert not drained(slurm)
    assert run_jobs(slurm, bad)[1:] == (f"nodes-{SLOW}",)
    assert drained(slurm) == [[f"nodes-{SLOW}", ANY]]

    command("lab", "nodes", "heal", str(SLOW))
    must(slurm, 0, f"scontrol update nodename=nodes-{FOREIGN} state=drain reason=fan")
    assert must(slurm, 0, "/root/gate undo").strip() == f"Undrained: nodes-{SLOW}"
    assert drained(slurm) == [[f"nodes-{FOREIGN}", "fan"]]
    must(slurm, 0, f"scontrol update nodename=nodes-{FOREIGN} state=undrain")

    assert run_jobs(slurm, "PROVEN PROVEN") == ("PROVEN PROVEN",)
    assert not drained(slurm)
