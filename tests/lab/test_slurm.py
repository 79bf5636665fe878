"""Real Slurm on real hosts: a lab with its controller and workers, used from outside."""

import re
import threading
import time
from pathlib import Path

import pytest

import cluster
from cluster.core.errors import JobError, SpecError, Unreachable
from cluster.core.model.spec import ClusterSpec
from cluster.orchestration.bench.collect import Listener
from cluster.providers.lab import LabProvider
from cluster.providers.slurm.client import lab_machines
from tests.conftest import answer, command, write_program

# A user's settings, by which the last host of the lab is a login host; the nodes know its key, too.
SETTINGS = """\
Host login1
  HostName {address}
  HostKeyAlias {address}
  UserKnownHostsFile {lab}/known_hosts
Host login1 nodes-*
  User root
  IdentityFile {lab}/key
  IdentitiesOnly yes
"""
SSH = """\
#!/bin/sh
exec /usr/bin/ssh -F {settings} "$@"
"""
NOTICED_WITHIN = 30.0  # seconds; 15 are promised, and this machine may be busy
ANOTHER = (  # host of the job, who ends the run, and what is said
    *("nodes-[0-2]", 2, JobError),
    r"2\.mpi\.job2 does not answer any more \(.*\); Slurm (still )?calls nodes-2 \w+",
)
THE_FIRST = (
    *("nodes-[4-6]", 4, Unreachable),
    r"is out of reach: \S+ has not answered for 6 s\.\nSlurm (still )?calls nodes-4 \w+",
)
SLURM = ("--provider", "slurm", "--hosts", "3", "--option", "lab=nodes")


@pytest.fixture
def possible_slurm(own_labs: None) -> None:
    """Skip, with the reason, where no lab with Slurm can be made."""
    try:
        LabProvider().plan(ClusterSpec(name="lab", provider="lab", options={"slurm": "1"}))
    except SpecError as error:
        pytest.skip(str(error))


class Kills(Listener):
    """Takes the power of a host of the lab, as soon as the ranks have begun."""

    def __init__(self, host: int) -> None:
        self.host, self.at = host, 0.0

    def output(self, line: str) -> None:
        """Do it, once; the power is gone before the command ends."""
        if "ready" in line and not self.at:
            self.at = time.monotonic()
            words = ("lab", "nodes", "kill", str(self.host))
            threading.Thread(target=command, args=words).start()


def log_in(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the last host of the lab reachable by the user's own ssh, as `login1`.

    OpenSSH takes the user's home from the list of users and not from HOME, so it is told the file.
    """
    (home / ".ssh").mkdir()
    settings = home / ".ssh" / "config"
    address = lab_machines("nodes")[-1].address
    settings.write_text(SETTINGS.format(lab=home / "state" / "nodes" / "lab", address=address))
    programs = home / "programs"
    write_program(programs / "ssh", SSH.format(settings=settings))
    monkeypatch.setenv("PATH", str(programs), prepend=":")


@pytest.mark.timed
@pytest.mark.usefixtures("possible_slurm", "home", "faulty")
def test_a_fleet_behind_a_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """90 s: eight hosts with Slurm start, and three of them get what benchmarks need.

    Ranks are started by srun and by mpirun, pairs are tested by SSH and by steps of srun, Slurm is
    asked by way of a login host, nodes die, and each time nothing is left in the queue.
    """
    command("up", "nodes", "--provider", "lab", "--hosts", "8", "--option", "slurm=1")
    quick = ("--metrics", "latency", "--sizes", "8", "--iterations", "100")

    command("up", "mine", *SLURM, "--option", "reach=ssh")
    for starter in ("srun", "mpirun"):
        run = answer("bench", "p2p", "mine", *quick, "--starter", starter)
        assert run["status"] == "done"
    wrong = command("bench", "p2p", "mine", *quick, "--starter", "srun:pmi2", status=None)
    assert wrong.returncode != 0
    assert "--mpi=pmi2" in wrong.stderr
    assert "srun:pmix" in wrong.stderr
    command("down", "mine")

    command("up", "mine", *SLURM, "--option", "reach=srun")
    verdict = answer("check", "mine", "--milliseconds", "50", "--alone", "1", status=None)
    assert verdict["rounds"] > 0
    output = command("down", "mine").stdout
    assert "0 left" in output

    log_in(tmp_path, monkeypatch)
    words = ("--provider", "slurm", "--hosts", "2", "--option", "login=login1")
    assert "login1" in command("up", "far", "--plan", *words).stdout
    command("up", "far", *words)
    assert answer("bench", "p2p", "far", *quick)["status"] == "done"
    command("down", "far")
    assert answer("more", "gc") == []

    a_node_dies(*ANOTHER)
    a_node_dies(*THE_FIRST)
    command("down", "nodes")


def a_node_dies(nodes: str, host: int, error: type[Exception], message: str) -> None:
    """End a run: the hosts have no SSH between them, and Slurm itself would take longer."""
    options = {"lab": "nodes", "reach": "srun", "nodelist": nodes}
    c = cluster.launch(f"job{host}", provider="slurm", hosts=3, options=options)
    kills = Kills(host)
    with pytest.raises(error) as failed:
        c.bench("faulty", how="sleep", listener=kills)

    assert time.monotonic() - kills.at < NOTICED_WITHIN
    assert re.search(message, str(failed.value))
    c.close()  # the lab goes with its Slurm: a job on a dead node takes 20 s to be over
