"""NCCL's collectives, called by nccl4py and timed by a loop in Python."""

from collections.abc import Callable
from functools import partial
from typing import Any

from cluster.benchmarks.collectives.loops import CollectiveLoops
from cluster.benchmarks.collectives.series import CollectiveSeries
from cluster.measure import nccl_group
from cluster.measure.rank import Rank


class NcclLoops(CollectiveLoops):
    """NCCL's collectives, called by nccl4py on arrays of torch or CuPy."""

    def __init__(self, rank: Rank) -> None:
        self._nccl = nccl_group.require_nccl4py()
        self._gpu = nccl_group.open_gpu(rank)
        self._group = nccl_group.join(rank, self._nccl)
        version = self._nccl.get_version()
        rank.note(
            f"nccl4py {version.nccl4py} did the operations, over NCCL {version.libnccl.version}, "
            f"with arrays of {self._gpu.module}."
        )

    def prepared(self, cell: CollectiveSeries) -> Callable[[int], list[float]]:
        gpu = self._gpu
        inputs = [gpu.put(g) for g in cell.inputs]
        receives = cell.expected[0] is not None
        result = gpu.put(cell.result)
        once = self._operation(cell.operation.name, result, receives=receives)
        received = partial(gpu.fetch, result) if receives else None
        return self.repeated(cell, once, inputs, gpu.synchronise, received)

    def _operation(
        self,
        name: str,
        result: Any,  # noqa: ANN401 - an array of torch or CuPy
        *,
        receives: bool,
    ) -> Callable[[Any], object]:
        """Return the call of an operation; of a broadcast, rank 0 gets its own array back."""
        group, add = self._group, self._nccl.SUM
        calls: dict[str, Callable[[Any], object]] = {
            "allreduce": lambda message: group.allreduce(message, result, add),
            "allgather": lambda message: group.allgather(message, result),
            "reduce_scatter": lambda message: group.reduce_scatter(message, result, add),
            "bcast": lambda message: group.broadcast(message, result if receives else message, 0),
            "reduce": lambda message: group.reduce(message, result, add, 0),
            "alltoall": lambda message: group.alltoall(message, result),
        }
        return calls[name]

    def close(self) -> None:
        self._group.destroy()
