"""Profiles of ranks on several hosts: each host compiles, and all files come home."""

from pathlib import Path

import pytest

from cluster.core.errors import SpecError
from cluster.core.model.logs import Profile
from cluster.logs.reader import read
from cluster.orchestration.cluster import Cluster
from tests.conftest import answer, command
from tests.lab.conftest import must

pytestmark = pytest.mark.usefixtures("compiler")
PROGRAM = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
for _ in range(25):
    comm.Allreduce(np.zeros(64), np.zeros(64))
"""


def test_ranks_of_two_hosts_are_profiled(lab: Cluster, home: Path) -> None:
    iterations = {"sizes": [1000], "iterations": 15, "warm_up": 0}
    run = lab.bench("p2p", metrics=["bandwidth"], profile="own", **iterations)  # type: ignore[arg-type]
    files = sorted((run.folder / "raw").glob("mpi_profile.*"))
    details = [result.detail for file in files for result in read([file.read_bytes()]).results]
    sender, receiver = (detail for detail in details if isinstance(detail, Profile))

    assert [task.host for task in sender.tasks] == ["shared-0", "shared-1"]
    assert [r.calls for r in sender.routines if r.name == "MPI_Isend"] == [15 * 64]
    assert [r.bytes for r in receiver.routines if r.name == "MPI_Irecv"] == [1000.0]

    (home / "known.py").write_text(PROGRAM)
    lab.put(home / "known.py", "/root/known.py")
    command("run", lab.name, "--profile", "--", "python3", "/root/known.py")
    (job,) = answer("more", "profile", "latest")["jobs"]
    (allreduce,) = (row for row in job["routines"] if row["name"] == "MPI_Allreduce")
    assert (allreduce["calls"], allreduce["bytes"]) == (50, 50 * 512.0)
    assert {task["host"] for task in job["tasks"]} == {"shared-0", "shared-1"}


def test_a_host_without_a_compiler_is_named(lab: Cluster) -> None:
    """Before anything runs; the other host has one."""
    lab.install()
    folder = lab.machines[1].folder
    must(lab, 1, f"rm -rf {folder}/kernels")
    must(lab, 1, f"printf '#!/bin/sh\\necho no compiler >&2; exit 1\\n' > {folder}/env/bin/mpicc")
    try:
        with pytest.raises(
            SpecError,
            match=r"1\.mpi\.shared: .* mpicc: no compiler",
        ):
            lab.bench("p2p", metrics=["latency"], sizes=[8], iterations=5, profile="own")
    finally:
        lab.down()  # it is not what it was
