"""The variables by which Open MPI 4 (OMPI) and 5 (PRTE, PMIX) reach the hosts of a cluster."""

from cluster.core.model.hosts import Layout

PREFIXES = ("OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_")  # of all of them
LAUNCHED_BY = {"PRTE_MCA_plm": "ssh", "OMPI_MCA_plm": "rsh"}  # never by srun, also inside of Slurm
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
    """Return the variables by which mpirun reaches other hosts.

    Daemons and messages use the cluster's networks only, by their CIDR: a bridge such as docker0
    has the same address on every host, and a rank that tries it waits for ever
    (open-mpi/ompi#6377). Without our own SSH, only those that keep it on the networks.
    """
    if not layout.ssh_config:
        return network_variables(layout)
    variables = dict.fromkeys(AGENTS, f"ssh -F {layout.ssh_config}") | LAUNCHED_BY
    variables |= network_variables(layout)
    for name, value in KEEPALIVE.items():
        names = (f"{version}_MCA_oob_tcp_keepalive_{name}" for version in ("OMPI", "PRTE"))
        variables |= dict.fromkeys(names, value)
    return variables


def network_variables(layout: Layout) -> dict[str, str]:
    """Return the variables that keep Open MPI on a cluster's networks, if they are known."""
    return dict.fromkeys(INCLUDES, ",".join(layout.networks)) if layout.networks else {}
