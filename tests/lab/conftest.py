"""Real hosts: a lab that the tests of this folder share, and labs of their own."""

import os
import re
import subprocess
from pathlib import Path

import pytest

import cluster
from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.providers.lab import LabProvider
from tests.conftest import PATIENCE
from tests.lab.alone import alone

__all__ = ["alone"]

from collections.abc import Iterator

from cluster.orchestration.cluster import Cluster
from cluster.remote.shells import Shell


@pytest.fixture(scope="session")
def possible() -> None:
    """Skip, with the reason, where no lab can be made."""
    try:
        LabProvider().plan(ClusterSpec(name="lab", provider="lab"))
    except SpecError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def shared_state(tmp_path_factory: pytest.TempPathFactory, possible: None) -> Iterator[Path]:
    """The state folder of the lab that tests share."""
    folder = tmp_path_factory.mktemp("shared")
    yield folder
    os.environ["CLUSTER_STATE"] = str(folder)
    for name in LabProvider().names():
        LabProvider().destroy(name)
    assert LabProvider().names() == ()


@pytest.fixture
def lab(shared_state: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts at 1 gbit, as they were made; whoever breaks one takes it down."""
    monkeypatch.setenv("CLUSTER_STATE", str(shared_state))
    return cluster.launch("shared", provider="lab", options={"rate": "1gbit"})


@pytest.fixture
def own_labs(possible: None) -> Iterator[None]:
    """For tests that make labs of their own: whatever they do, nothing of theirs is left."""
    yield
    for name in LabProvider().names():
        LabProvider().destroy(name)
    assert LabProvider().names() == ()


def shell_of(cluster: Cluster, number: int) -> Shell:
    """Return the shell to one host."""
    return cluster.shells()[f"{number}.mpi.{cluster.name}"]


def must(cluster: Cluster, number: int, script: str) -> str:
    """Run a script on one host, as root, and give what it printed."""
    result = shell_of(cluster, number).run(["sh", "-c", script], timeout=PATIENCE)
    assert result.status == 0, result
    return result.stdout


def first_process(cluster: Cluster, number: int) -> int:
    """Return the id, here, of a host's first process: its sshd."""
    ids = {resource.kind: resource.id for resource in LabProvider().find(cluster.name)}
    holder = ids[f"host {number}"].split()[-1]
    return int(Path(f"/proc/{holder}/task/{holder}/children").read_text().split()[0])


def ranks_of(cluster: Cluster, program: str) -> dict[str, str]:
    """Return the processes on each host that run a program; hosts without any are left out."""
    look = f"cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -x {itself_not(program)} || :"
    results = cluster.run(["sh", "-c", look], timeout=PATIENCE)
    return {name: result.stdout for name, result in results.items() if result.stdout}


def itself_not(program: str) -> str:
    """Return a pattern for grep that does not find the grep that looks for it."""
    return f"'[{program[0]}]{re.escape(program[1:])}'"


def namespaces() -> int:
    """Count the network namespaces of this machine."""
    result = subprocess.run(
        ["lsns", "-t", "net", "-n", "-o", "NS"],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    return len(result.stdout.split())
