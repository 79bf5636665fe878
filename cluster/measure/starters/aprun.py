"""Cray's aprun, from the batch script of an allocation."""

from collections.abc import Sequence
from typing import ClassVar

from cluster.core.model.hosts import Layout
from cluster.measure.mpi import RANKS
from cluster.measure.starters import Starter


class Aprun(Starter):
    """Starts ranks with aprun, each with an equal share of its host's cores.

    aprun itself chooses the hosts among those of the allocation, so ranks are not placed by us.
    """

    program: ClassVar[str] = "aprun"
    needs_allocation: ClassVar[bool] = True
    places_ranks: ClassVar[bool] = False

    def argv(self, program: Sequence[str], layout: Layout) -> list[str]:
        most = max(layout.slots.values())
        depth = max(1, layout.cores // most)
        return [
            "aprun",
            *("-n", str(layout.size), "-N", str(most)),
            *("-cc", "depth", "-d", str(depth)),
            *program,
        ]

    def env(self, layout: Layout) -> dict[str, str]:
        """Return the number of ranks, so that each can check that it found the others."""
        return {RANKS: str(layout.size)}
