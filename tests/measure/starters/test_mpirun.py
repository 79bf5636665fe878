"""The command lines that start ranks with Open MPI."""

import pytest

from cluster.core import plugins
from cluster.core.model.hosts import Layout
from cluster.measure.starters import Starter

PROGRAM = ("python3", "-P", "p2p.py", '{"sizes":[8, 16]}')
TOLD = ["-x", "CLUSTER_ADDRESSES"]
BOUND = ["--map-by", "core", "--bind-to", "core"]
CROWDED = ["--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]


def argv(layout: Layout) -> list[str]:
    return plugins.load(Starter, "mpirun").argv(PROGRAM, layout)


def test_two_hosts() -> None:
    layout = Layout(addresses=("10.0.0.1", "10.0.0.2"), cores=4)

    assert argv(layout) == [
        "mpirun",
        *("-np", "2", "--host", "10.0.0.1:1,10.0.0.2:1"),
        *TOLD,
        *BOUND,
        *PROGRAM,
    ]


def test_two_ranks_on_one_address_that_is_given_twice() -> None:
    """Open MPI adds nothing up: an address must come once, with all its slots."""
    layout = Layout(addresses=("127.0.0.1", "127.0.0.1"), cores=2)

    assert argv(layout) == ["mpirun", "-np", "2", "--host", "127.0.0.1:2", *TOLD, *BOUND, *PROGRAM]


def test_several_ranks_on_several_hosts() -> None:
    layout = Layout(addresses=("c", "a", "b"), ranks_per_host=4, cores=4)

    assert argv(layout) == ["mpirun", "-np", "12", "--host", "c:4,a:4,b:4", *TOLD, *BOUND, *PROGRAM]


@pytest.mark.parametrize("cores", [1, 8])
def test_root_must_be_allowed(cores: int) -> None:
    layout = Layout(addresses=("a", "b"), ranks_per_host=2, cores=cores, root=True)

    assert argv(layout)[:2] == ["mpirun", "--allow-run-as-root"]
    assert argv(layout).count("--allow-run-as-root") == 1


def test_nobody_else_is_called_root() -> None:
    layout = Layout(addresses=("a", "b"), cores=2, root=False)

    assert "--allow-run-as-root" not in argv(layout)


def test_more_ranks_than_cores_yield_and_are_not_bound() -> None:
    layout = Layout(addresses=("a", "a", "b"), ranks_per_host=2, cores=3)

    assert argv(layout) == ["mpirun", "-np", "6", "--host", "a:4,b:2", *TOLD, *CROWDED, *PROGRAM]


def test_as_many_ranks_as_cores_are_bound() -> None:
    layout = Layout(addresses=("a", "a", "b"), ranks_per_host=2, cores=4)

    assert argv(layout) == ["mpirun", "-np", "6", "--host", "a:4,b:2", *TOLD, *BOUND, *PROGRAM]


def test_hosts_that_share_their_cores_are_crowded_together() -> None:
    """Of a lab: four hosts of one rank on a machine of two cores."""
    crowded = Layout(addresses=("a", "b", "c", "d"), cores=2, sharing=4)
    enough = Layout(addresses=("a", "b"), cores=2, sharing=2)

    assert argv(crowded)[-len(PROGRAM) - len(CROWDED) : -len(PROGRAM)] == CROWDED
    assert argv(enough)[-len(PROGRAM) - 2 : -len(PROGRAM)] == ["--bind-to", "none"]


def test_on_one_host_nothing_is_said_of_networks() -> None:
    layout = Layout(addresses=("a", "b"), ranks_per_host=2)

    assert plugins.load(Starter, "mpirun").env(layout) == {"CLUSTER_ADDRESSES": "a,a,b,b"}


def test_across_hosts_only_the_clusters_networks_and_keys_are_used() -> None:
    """By versions 4 (OMPI) and 5 (PRTE, PMIX), for messages and for their own talk."""
    networks = ("10.0.0.0/24", "10.1.0.0/24")
    layout = Layout(addresses=("a", "b"), networks=networks, ssh_config="/f/ssh/config")
    env = plugins.load(Starter, "mpirun").env(layout)

    for name in ("PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent"):
        assert env[name] == "ssh -F /f/ssh/config"
    for name in ("OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include"):
        assert env[name] == "10.0.0.0/24,10.1.0.0/24"
    for name in ("OMPI_MCA_oob_tcp_keepalive_time", "PRTE_MCA_oob_tcp_keepalive_time"):
        assert int(env[name]) < 15  # seconds, of the 300 that nothing would mean
    for name in ("PRTE_MCA_prte_if_include", "PMIX_MCA_ptl_tcp_if_include"):
        assert env[name] == "10.0.0.0/24,10.1.0.0/24"
