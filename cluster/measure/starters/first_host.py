"""One process, on the first host; it starts what it needs on the others by itself."""

import shlex
from collections.abc import Sequence
from typing import ClassVar

from cluster.core.model.hosts import Layout
from cluster.measure.mpi import open_mpi_variables
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
        options = ["--ssh-config", layout.ssh_config] if layout.ssh_config else []
        if (alloc := layout.allocation) and not layout.ssh_config:
            # The words that run a program on another host, whose name replaces `{}`.
            reach = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "{}", "exec"]
            if alloc.system == "slurm":
                reach = ["srun", f"--jobid={alloc.job}", "--mpi=none", "--overlap", "--overcommit"]
                reach += ["-N", "1", "-n", "1", "--cpu-bind=none", "--export=ALL", "--nodelist={}"]
            options = ["--reach", shlex.join(reach)]
            options += ["--names", ",".join(alloc.names)] if alloc.names else []
        options += ["--hosts", ",".join(layout.places), "--count", str(layout.size)]
        return ["python3", "-P", "-m", "cluster.measure.first_host", *options, "--", *program]

    def env(self, layout: Layout) -> dict[str, str]:
        """Return the variables by which the ranks of programs that it starts reach one another."""
        is_shared = layout.oversubscribed or layout.sharing > 1
        return open_mpi_variables(layout) | ({YIELD: "1"} if is_shared else {})
