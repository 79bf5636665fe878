"""MPI's collectives, timed by a loop in Python."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING

from cluster.benchmarks.collectives.loops import CollectiveLoops
from cluster.benchmarks.collectives.operations import (
    BARRIER,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from cluster.benchmarks.collectives.series import CollectiveSeries

    Data = NDArray[np.uint8] | NDArray[np.float32]


class MpiLoops(CollectiveLoops):
    """MPI's collectives, timed by a loop in Python."""

    def prepared(self, cell: CollectiveSeries) -> Callable[[int], list[float]]:
        """Return the function that repeats an operation."""
        comm, result = cell.comm, cell.result
        operate: dict[str, Callable[[Data], object]] = {
            "allreduce": lambda given: comm.Allreduce(given, result),
            "allgather": lambda given: comm.Allgather(given, result),
            "reduce_scatter": lambda given: comm.Reduce_scatter_block(given, result),
            "bcast": lambda given: comm.Bcast(given if cell.expected[0] is None else result),
            "reduce": lambda given: comm.Reduce(given, result),
            "alltoall": lambda given: comm.Alltoall(given, result),
            BARRIER: lambda _: comm.Barrier(),
        }
        once = operate[cell.operation.name]

        def repeat(n: int) -> list[float]:
            found = []
            for _ in range(n):
                given = cell.given[cell.number % 2]
                comm.Barrier()
                start = perf_counter_ns()
                once(given)
                found.append((perf_counter_ns() - start) / 1e9)
                cell.check(cell.number)
                cell.number += 1
            return found

        return repeat
