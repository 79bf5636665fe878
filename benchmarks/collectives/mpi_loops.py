"""MPI's collectives, timed by a loop in Python."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING

from cluster.benchmarks.collectives.loops import CollectiveLoops
from cluster.benchmarks.collectives.operations import BARRIER

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cluster.benchmarks.collectives.series import CollectiveSeries

    Data = NDArray[np.uint8] | NDArray[np.float32]


class MpiLoops(CollectiveLoops):
    """MPI's collectives, timed by a loop in Python."""

    def prepared(self, cell: CollectiveSeries) -> Callable[[int], list[float]]:
        comm, result = cell.comm, cell.result
        operate: dict[str, Callable[[Data], object]] = {
            "allreduce": lambda data: comm.Allreduce(data, result),
            "allgather": lambda data: comm.Allgather(data, result),
            "reduce_scatter": lambda data: comm.Reduce_scatter_block(data, result),
            "bcast": lambda data: comm.Bcast(data if cell.expected[0] is None else result),
            "reduce": lambda data: comm.Reduce(data, result),
            "alltoall": lambda data: comm.Alltoall(data, result),
            BARRIER: lambda _: comm.Barrier(),
        }
        once = operate[cell.operation.name]

        def repeat(n: int) -> list[float]:
            seconds = []
            for _ in range(n):
                data = cell.inputs[cell.number % 2]
                comm.Barrier()
                start = perf_counter_ns()
                once(data)
                seconds.append((perf_counter_ns() - start) / 1e9)
                cell.check(cell.number)
                cell.number += 1
            return seconds

        return repeat
