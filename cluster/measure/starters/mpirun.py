"""Open MPI's mpirun, versions 4 and 5."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.measure.starters import Starter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.hosts import Layout


ADDRESSES = "CLUSTER_ADDRESSES"  # of each rank, in their order
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


class Mpirun(Starter):
    """Starts ranks with mpirun, each bound to a core of its own where there are enough."""

    def argv(self, program: Sequence[str], layout: Layout) -> list[str]:
        """Give the mpirun command line.

        Slots are always given, so mpirun neither guesses their number nor refuses. With more ranks
        than cores, a waiting rank must yield its core: busy-waiting takes a whole time slice per
        message (measured over TCP on one core: 4000 us against 15 us).
        """
        slots = layout.slots
        hosts = ",".join(f"{address}:{count}" for address, count in slots.items())
        return [
            "mpirun",
            *(["--allow-run-as-root"] if layout.root else []),
            *("-np", str(layout.size), "--host", hosts),
            *("-x", ADDRESSES),
            *_binding(layout),
            *program,
        ]

    def env(self, layout: Layout) -> dict[str, str]:
        """Give the variables by which version 4 (OMPI) and 5 (PRTE, PMIX) reach other hosts.

        Daemons and messages use the cluster's networks only, by their CIDR: a bridge such as
        docker0 has the same address on every host, and a rank that tries it waits for ever
        (open-mpi/ompi#6377).
        """
        variables = {ADDRESSES: ",".join(layout.places)}
        if layout.ssh_config:
            agent, networks = f"ssh -F {layout.ssh_config}", ",".join(layout.networks)
            variables |= dict.fromkeys(AGENTS, agent)
            variables |= dict.fromkeys(INCLUDES, networks)
            for name, value in KEEPALIVE.items():
                names = (f"{version}_MCA_oob_tcp_keepalive_{name}" for version in ("OMPI", "PRTE"))
                variables |= dict.fromkeys(names, value)
        return variables


def _binding(layout: Layout) -> list[str]:
    if layout.oversubscribed:
        return ["--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    if layout.sharing > 1:  # each host would bind to the same first core
        return ["--bind-to", "none"]
    return ["--map-by", "core", "--bind-to", "core"]
