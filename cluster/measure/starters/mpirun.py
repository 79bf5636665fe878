"""Open MPI's mpirun, versions 4 and 5."""

from collections.abc import Sequence

from cluster.core.model.hosts import Layout
from cluster.measure.mpi import ADDRESSES, open_mpi_variables
from cluster.measure.starters import Starter


class Mpirun(Starter):
    """Starts ranks with mpirun, each bound to a core of its own where there are enough."""

    def argv(self, program: Sequence[str], layout: Layout) -> list[str]:
        """Return the mpirun command line.

        Slots are always given, so mpirun neither guesses their number nor refuses. With more ranks
        than cores, a waiting rank must yield its core: busy-waiting takes a whole time slice per
        message (measured over TCP on one core: 4000 us against 15 us).
        """
        binding = ["--map-by", "core", "--bind-to", "core"]
        if layout.oversubscribed:
            binding = ["--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
        elif layout.sharing > 1:  # each host would bind to the same first core
            binding = ["--bind-to", "none"]
        slots = ",".join(f"{address}:{count}" for address, count in layout.slots.items())
        return [
            "mpirun",
            *(["--allow-run-as-root"] if layout.root else []),
            *("-np", str(layout.size), "--host", slots, "-x", ADDRESSES),
            *binding,
            *program,
        ]

    def env(self, layout: Layout) -> dict[str, str]:
        """Return the addresses of the ranks, and the variables by which they are reached."""
        return {ADDRESSES: ",".join(layout.places), **open_mpi_variables(layout)}
