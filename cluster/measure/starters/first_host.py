"""One process, on the first host; it starts what it needs on the others by itself."""

import shlex
from collections.abc import Sequence
from typing import ClassVar

from cluster.core.model.hosts import Allocation, Layout
from cluster.measure.open_mpi_variables import open_mpi_variables
from cluster.measure.starters import Starter

YIELD = "OMPI_MCA_mpi_yield_when_idle"


class FirstHost(Starter):
    """Starts the program once, with the addresses of all hosts.

    It uses no MPI, so that a host that dies or hangs does not end the program on the others; what
    it starts may use MPI.
    """

    needs_every_host: ClassVar[bool] = False

    def argv(self, program: Sequence[str], layout: Layout) -> list[str]:
        """Return the program, after the options that name the hosts."""
        config = ["--ssh-config", layout.ssh_config] if layout.ssh_config else []
        if layout.allocation and not layout.ssh_config:
            config = ["--reach", shlex.join(_reach_words(layout.allocation))]
        named = layout.allocation.names if layout.allocation and not layout.ssh_config else ()
        names = ["--names", ",".join(named)] if named else []
        hosts = [*names, "--hosts", ",".join(layout.places), "--count", str(layout.size)]
        return [
            "python3",
            "-P",
            "-m",
            "cluster.measure.first_host",
            *config,
            *hosts,
            "--",
            *program,
        ]

    def env(self, layout: Layout) -> dict[str, str]:
        """Return the variables by which the ranks of programs that it starts reach one another."""
        shared = layout.oversubscribed or layout.sharing > 1
        return open_mpi_variables(layout) | ({YIELD: "1"} if shared else {})


def _reach_words(lent: Allocation) -> list[str]:
    """Return the words that run a program on another host, whose name replaces `{}`."""
    if lent.system != "slurm":
        return ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "{}", "exec"]
    step = ["srun", f"--jobid={lent.job}", "--mpi=none", "--overlap", "--overcommit"]
    return [*step, "-N", "1", "-n", "1", "--cpu-bind=none", "--export=ALL", "--nodelist={}"]
