"""Open MPI's component btl/ofi, which sleeps for a second in each start, is left out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from cluster.core.model.hosts import Machine
from cluster.remote import open_mpi
from cluster.runs import store
from tests.conftest import command, runs_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """An Open MPI as pip installs it: its parameter file has comments only."""
    file = tmp_path / "prefix" / open_mpi.PARAMETERS
    file.parent.mkdir(parents=True)
    file.write_text("# btl = tcp\n")
    return tmp_path / "prefix"


def machines(prefix: Path, shell: str = "local") -> list[Machine]:
    return [
        Machine(
            name="0.mpi.c",
            id="0",
            address="127.0.0.1",
            shell=shell,
            folder="",
            bin=f"{prefix}/bin",
        )
    ]


def test_it_is_left_out_on_this_machine(prefix: Path, home: Path) -> None:
    assert open_mpi.local_variables(machines(prefix), home) == {"OMPI_MCA_btl": "^ofi"}


def test_what_a_file_says_has_precedence(prefix: Path, home: Path) -> None:
    (home / ".openmpi").mkdir()
    (home / open_mpi.OWN_PARAMETERS).write_text("pml = ob1\n  btl=self,tcp\n")
    assert open_mpi.local_variables(machines(prefix), home) == {}

    (home / open_mpi.OWN_PARAMETERS).unlink()
    (prefix / open_mpi.PARAMETERS).write_text("btl = ^uct,openib,ofi\n")  # as Debian's does
    assert open_mpi.local_variables(machines(prefix), home) == {}


def test_other_machines_and_other_open_mpis_are_left_alone(prefix: Path, home: Path) -> None:
    assert open_mpi.local_variables(machines(prefix, "ssh"), home) == {}
    assert open_mpi.local_variables(machines(home / "none"), home) == {}
    assert open_mpi.local_variables([], home) == {}


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
    said = (store.find(runs_folder(), "latest") / "raw" / "stdout").read_text()
    command("down", name)
    return set(re.findall(r"^btl=(.*)$", said, re.MULTILINE))
