"""How ranks are started: one file per starter; each is a pure function of the layout."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from cluster.core.model.hosts import Layout
from cluster.core.plugins import Plugin


class Starter(Plugin):
    """Starts the ranks of one program over a layout."""

    folder: ClassVar[str] = "cluster.measure.starters"

    needs_every_host: ClassVar[bool] = True
    """Whether the job ends when one of its hosts is lost."""

    starts_mpi: ClassVar[bool] = True
    """Whether the processes that it starts find one another through MPI."""

    program: ClassVar[str] = ""
    """The program of a site that the first host needs; empty if cluster brings it."""

    places_ranks: ClassVar[bool] = True
    """Whether the layout decides on which host each rank runs; else the starter does."""

    needs_allocation: ClassVar[bool] = False
    """Whether it starts processes only on hosts that a batch system has lent."""

    @abstractmethod
    def argv(self, program: Sequence[str], layout: Layout) -> list[str]:
        """Return the command line that starts all ranks of a program, unquoted."""

    def env(self, layout: Layout) -> dict[str, str]:
        """Return the environment variables that the command needs; none by default."""
        return {}
