"""A world of the wrong size, or ranks on wrong hosts, end before anything is timed."""

import re
from typing import Any

import pytest

from cluster.core.errors import ClusterError, SpecError
from cluster.core.messages import for_command_line
from cluster.measure import mpi
from cluster.measure.main import check_world
from tests.snapshots import Snapshot

OPEN_MPI_5 = "Open MPI v5.0.11, package: Open MPI user@host Distribution"
STEP = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "3"}
# As Slurm 22.05 of Debian prints it.
LIST = """MPI plugin types are...
	pmix
	none
	cray_shasta
	pmi2
specific pmix plugin versions available: pmix_v4
"""
OLD_LIST = "srun: MPI types are...\nsrun: none\nsrun: pmi2\nsrun: openmpi\n"


class World:
    """Where a rank finds itself."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def Get_rank(self) -> int:  # noqa: N802 - as in mpi4py
        return self.rank

    def Get_size(self) -> int:  # noqa: N802
        return self.size


def check(rank: int, size: int, **variables: str) -> None:
    comm: Any = World(rank, size)
    check_world(comm, OPEN_MPI_5, variables)


def test_the_wrong_pmi_is_named_with_the_right_one() -> None:
    with pytest.raises(ClusterError) as error:
        check(0, 1, CLUSTER_ADDRESSES=",".join(["a"] * 8), PMI_FD="7", **STEP)
    with for_command_line():
        message = str(error.value)

    assert re.search(r"^8 .* 3 .* 0 of 1", message)
    assert "--mpi=pmi2" in message
    assert "--starter srun:pmix" in message


def test_aprun_without_addresses_is_checked_by_the_number_of_ranks(snapshot: Snapshot) -> None:
    with snapshot.raises(ClusterError):
        check(0, 1, CLUSTER_RANKS="4")


def test_a_rank_on_the_host_of_another_rank_says_so(snapshot: Snapshot) -> None:
    """127.0.0.1 is an address of every host, and 192.0.2.0/24 of none (RFC 5737)."""
    with snapshot.raises(ClusterError):
        check(1, 2, CLUSTER_ADDRESSES="127.0.0.1,192.0.2.7")


def test_the_right_world_and_one_that_nobody_described_pass() -> None:
    check(0, 2, CLUSTER_ADDRESSES="127.0.0.1,127.0.0.1")
    check(0, 2, CLUSTER_ADDRESSES="127.0.0.1,192.0.2.7")
    check(0, 2, CLUSTER_ADDRESSES="192.0.2.6,192.0.2.7")  # behind NAT: nothing is known
    check(0, 1)


@pytest.mark.parametrize(
    ("library", "kinds", "pmi"),
    [
        ("mpirun (Open MPI) 5.0.11", ("pmix", "none", "pmi2"), "pmix"),
        ("mpirun (Open MPI) 5.0.11", ("pmix_v3", "pmix_v4", "pmi2"), "pmix_v4"),
        ("mpirun (Open MPI) 4.1.4", ("none", "pmi2"), "pmi2"),
        ("HYDRA build details:", ("pmix", "pmi2"), "pmi2"),
        ("Intel(R) MPI Library for Linux", ("pmix", "pmi2"), "pmi2"),
    ],
)
def test_the_pmi_is_one_that_the_mpi_speaks(library: str, kinds: list[str], pmi: str) -> None:
    assert mpi.choose_pmi(library, kinds) == pmi


def test_an_mpi_that_no_pmi_fits_is_refused_before_anything_starts() -> None:
    with pytest.raises(SpecError, match=r"pmix.* none, pmi2") as error:
        mpi.choose_pmi("mpirun (Open MPI) 5.0.11", ("none", "pmi2"))
    assert 'starter="mpirun"' in str(error.value)  # as a script in Python says it


def test_both_forms_of_sruns_list_are_read() -> None:
    assert mpi.read_list(LIST) == ("pmix", "none", "cray_shasta", "pmi2")
    assert mpi.read_list(OLD_LIST) == ("none", "pmi2", "openmpi")
