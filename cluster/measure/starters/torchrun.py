"""PyTorch's torchrun: one agent per host, whose processes meet at the first host."""

from collections.abc import Sequence
from typing import ClassVar

from cluster.core.model.hosts import Layout
from cluster.measure.mpi import open_mpi_variables, step_words
from cluster.measure.starters import Starter

PORT = 29500  # torchrun's own default


class Torchrun(Starter):
    """Starts processes with RANK and WORLD_SIZE for torch.distributed; they are no ranks of MPI.

    torchrun starts processes on its own host only, so srun or mpirun starts one torchrun per host.
    A process that fails is not started again: its values would hide the failure.
    """

    starts_mpi: ClassVar[bool] = False
    program: ClassVar[str] = "torchrun"

    def argv(self, program: Sequence[str], layout: Layout) -> list[str]:
        """Return the torchrun command line, behind one that starts it on every host."""
        agents = len(layout.addresses)
        first, allocation = layout.addresses[0], layout.allocation
        start: list[str] = []  # of one agent per entry of the layout; none for a single one
        if agents > 1 and allocation and allocation.system == "slurm" and not layout.ssh_config:
            start = step_words(layout, 1, pmi="none", overcommit=True)
        elif agents > 1:
            slots = ",".join(f"{a}:{layout.addresses.count(a)}" for a in layout.slots)
            root = ["--allow-run-as-root"] if layout.root else []
            start = ["mpirun", *root, "-np", str(agents), "--host", slots, "--bind-to", "none"]
        return [
            *start,
            "torchrun",
            *("--nnodes", str(agents), "--nproc-per-node", str(layout.ranks_per_host)),
            *("--rdzv-backend", "c10d", "--rdzv-endpoint", f"{first}:{PORT}"),
            *("--max-restarts", "0", "--no-python"),
            *program,
        ]

    def env(self, layout: Layout) -> dict[str, str]:
        return open_mpi_variables(layout)
