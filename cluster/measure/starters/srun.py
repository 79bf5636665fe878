"""Slurm's srun: a step inside an allocation that exists."""

from collections.abc import Sequence
from typing import ClassVar

from cluster.core.model.hosts import Layout
from cluster.measure.mpi import ADDRESSES, network_variables, step_words
from cluster.measure.starters import Starter


class Srun(Starter):
    """Starts ranks with srun, each on the host that the layout says.

    Slurm binds no rank: what it calls a core of a step depends on the site's task plug-in, and a
    rank that shares a core with another is slower by a time slice per message.
    """

    program: ClassVar[str] = "srun"
    needs_allocation: ClassVar[bool] = True

    def argv(self, program: Sequence[str], layout: Layout) -> list[str]:
        ranks = layout.ranks_per_host
        return [*step_words(layout, ranks, overcommit=layout.oversubscribed), *program]

    def env(self, layout: Layout) -> dict[str, str]:
        """Return the addresses of the ranks, and the networks that they may use."""
        mca = {"OMPI_MCA_mpi_yield_when_idle": "1"} if layout.oversubscribed else {}
        return {ADDRESSES: ",".join(layout.places), **network_variables(layout), **mca}
