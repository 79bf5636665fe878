"""Cray's aprun, from the batch script of an allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from cluster.measure.addresses import RANKS
from cluster.measure.starters import Starter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.hosts import Layout


class Aprun(Starter):
    """Starts ranks with aprun, each with an equal share of its host's cores.

    aprun itself chooses the hosts among those of the allocation, so ranks are not placed by us.
    """

    program: ClassVar[str] = "aprun"
    needs_allocation: ClassVar[bool] = True
    places_ranks: ClassVar[bool] = False

    def argv(self, program: Sequence[str], layout: Layout) -> list[str]:
        """Return the aprun command line."""
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
