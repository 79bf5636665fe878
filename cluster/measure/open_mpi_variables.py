"""The variables by which Open MPI 4 (OMPI) and 5 (PRTE, PMIX) reach the hosts of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.core.model.hosts import Layout

PREFIXES = ("OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_")  # of all of them
AGENTS = ("PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent")
INCLUDES = (
    "OMPI_MCA_btl_tcp_if_include",
    "OMPI_MCA_oob_tcp_if_include",
    "PRTE_MCA_prte_if_include",
    "PMIX_MCA_ptl_tcp_if_include",
)
# TCP keepalive of mpirun's daemons: seconds of silence, seconds between probes, number of probes;
# the defaults are 300, 20 and 9. With these, daemons that lost the first host end their ranks soon,
# but not before the first host has reported the reason.
KEEPALIVE = {"time": "6", "intvl": "3", "probes": "3"}


def open_mpi_variables(layout: Layout) -> dict[str, str]:
    """Give the variables by which mpirun reaches other hosts.

    Daemons and messages use the cluster's networks only, by their CIDR: a bridge such as docker0
    has the same address on every host, and a rank that tries it waits for ever
    (open-mpi/ompi#6377).

    Args:
        layout: which hosts run how many ranks.

    Returns:
        Names and values; none if all ranks are on this host.

    """
    if not layout.ssh_config:
        return {}
    agent, networks = f"ssh -F {layout.ssh_config}", ",".join(layout.networks)
    variables = dict.fromkeys(AGENTS, agent) | dict.fromkeys(INCLUDES, networks)
    for name, value in KEEPALIVE.items():
        names = (f"{version}_MCA_oob_tcp_keepalive_{name}" for version in ("OMPI", "PRTE"))
        variables |= dict.fromkeys(names, value)
    return variables
