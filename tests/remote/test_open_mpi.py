"""What an Open MPI of pip starts for nothing, such as a sleep of a second, is left out."""

import os
import re
from pathlib import Path

import pytest

from cluster.core.model.hosts import Machine
from cluster.remote import open_mpi
from cluster.runs import store
from tests.conftest import command, path_of, run, runs_folder


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An Open MPI as pip installs it, its parameter file has comments only; and an ssh."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "ssh").touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/programs")
    file = tmp_path / "prefix" / open_mpi.PARAMETERS
    file.parent.mkdir(parents=True)
    file.write_text("# btl = tcp\n")
    return tmp_path / "prefix"


def machine(prefix: Path, shell: str = "local") -> Machine:
    path = f"{prefix}/bin"
    return Machine(name="0.mpi.c", id="0", address="127.0.0.1", shell=shell, folder="", bin=path)


def test_both_are_left_out_on_this_machine(prefix: Path, home: Path, tmp_path: Path) -> None:
    """With an RDMA device, messages may need mtl/ofi."""
    (tmp_path / "infiniband").mkdir()
    expected = {"OMPI_MCA_btl": "^ofi", "OMPI_MCA_mtl": "^ofi"}
    assert open_mpi.local_variables(machine(prefix), home, tmp_path) == expected

    (tmp_path / "infiniband" / "rdmap0s6").mkdir()
    assert open_mpi.local_variables(machine(prefix), home, tmp_path) == {"OMPI_MCA_btl": "^ofi"}


def test_what_a_file_says_has_precedence(prefix: Path, home: Path, tmp_path: Path) -> None:
    (home / ".openmpi").mkdir()
    (home / open_mpi.OWN_PARAMETERS).write_text("pml = ob1\n  btl=self,tcp\n")
    assert open_mpi.local_variables(machine(prefix), home, tmp_path) == {"OMPI_MCA_mtl": "^ofi"}

    (home / open_mpi.OWN_PARAMETERS).unlink()
    debian = "mtl = ^ofi\nbtl = ^uct,openib,ofi\n"
    (prefix / open_mpi.PARAMETERS).write_text(debian)
    assert open_mpi.local_variables(machine(prefix), home, tmp_path) == {}


def test_without_ssh_mpirun_is_told_of_a_launcher(prefix: Path, home: Path, tmp_path: Path) -> None:
    (tmp_path / "programs" / "ssh").rename(tmp_path / "programs" / "rsh")
    values = open_mpi.local_variables(machine(prefix), home, tmp_path)
    assert not values.keys() & open_mpi.STAND_IN.keys()

    (tmp_path / "programs" / "rsh").unlink()
    assert open_mpi.local_variables(machine(prefix), home, tmp_path) == values | open_mpi.STAND_IN


@pytest.mark.usefixtures("tools")
def test_without_ssh_there_may_be_more_ranks_than_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open MPI 5 alone says "Your job failed to map"."""
    programs = {path.name for folder in os.get_exec_path() for path in Path(folder).glob("*")}
    monkeypatch.setenv("PATH", path_of(tmp_path / "bin", *programs - {*open_mpi.REMOTE_SHELLS}))
    hosts = str(len(os.sched_getaffinity(0)) + 2)
    words = ("--operations", "allreduce", "--sizes", "8", "--iterations", "5", "bare")
    command("bench", "collectives", "--hosts", hosts, *words)
    command("down", "bare")


@pytest.mark.parametrize("device", ["", "infiniband/mlx5_0", "cxi/cxi0"])
def test_an_installation_of_ours_has_them_in_its_file(tmp_path: Path, device: str) -> None:
    """The script of the installation, with the folder of devices moved."""
    file = tmp_path / "env" / open_mpi.PARAMETERS
    file.parent.mkdir(parents=True)
    file.write_text("# comments\n")
    if device:
        (tmp_path / "class" / device).mkdir(parents=True)
    script = open_mpi.SCRIPT.replace("/sys/class", str(tmp_path / "class"))
    run("sh", "-euc", script, cwd=tmp_path)

    left_out = ["btl = ^ofi"] if device else ["btl = ^ofi", "mtl = ^ofi"]
    assert file.read_text().splitlines() == ["# comments", *left_out]


def test_an_installation_without_open_mpi_gets_no_file(tmp_path: Path) -> None:
    run("sh", "-euc", open_mpi.SCRIPT, cwd=tmp_path)

    assert list(tmp_path.glob("env")) == []


def test_other_machines_and_other_open_mpis_are_left_alone(prefix: Path, home: Path) -> None:
    assert open_mpi.local_variables(machine(prefix, "ssh"), home) == {}
    assert open_mpi.local_variables(machine(home / "none"), home) == {}


@pytest.mark.usefixtures("tools")
def test_ranks_on_this_machine_leave_it_out_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMPI_MCA_btl", raising=False)
    assert btl_of_ranks("ours") == {"^ofi"}

    monkeypatch.setenv("OMPI_MCA_btl", "self,sm,tcp")
    assert btl_of_ranks("theirs") == {"self,sm,tcp"}


def btl_of_ranks(name: str) -> set[str]:
    command("up", name)
    command("run", name, "--mpi", "--", "sh", "-c", "echo btl=$OMPI_MCA_btl")
    output = (store.find(runs_folder(), "latest") / "raw" / "stdout").read_text()
    command("down", name)
    return set(re.findall(r"^btl=(.*)$", output, re.MULTILINE))
