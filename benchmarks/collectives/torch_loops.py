"""The collectives of torch.distributed, with gloo or nccl, timed by a loop in Python."""

from collections.abc import Callable
from typing import Any

from cluster.benchmarks.collectives.loops import CollectiveLoops
from cluster.benchmarks.collectives.operations import BARRIER
from cluster.benchmarks.collectives.series import CollectiveSeries
from cluster.measure import torch_group
from cluster.measure.rank import Rank


class TorchLoops(CollectiveLoops):
    """The collectives of torch.distributed, timed by a loop in Python."""

    def __init__(self, rank: Rank, backend: str) -> None:
        self._torch = torch_group.require_torch(backend, f"--transport={backend}")
        self._backend = backend
        self._device = torch_group.choose_gpu(rank, self._torch) if backend == "nccl" else "cpu"
        rank.note(f"torch {self._torch.__version__} did the operations, over {backend}.")
        torch_group.join(rank, self._torch, backend)

    def prepared(self, cell: CollectiveSeries) -> Callable[[int], list[float]]:
        torch = self._torch
        dist = torch.distributed
        result = torch.from_numpy(cell.result).to(self._device)
        inputs = [torch.from_numpy(g.copy()).to(self._device) for g in cell.inputs]
        place = torch.empty_like(inputs[0])  # the buffer of operations in place
        operate: dict[str, Callable[[Any], object]] = {
            "allreduce": lambda _: dist.all_reduce(place),
            "allgather": lambda message: dist.all_gather_into_tensor(result, message),
            "reduce_scatter": lambda message: dist.reduce_scatter_tensor(result, message),
            "bcast": lambda _: dist.broadcast(place, 0),
            "reduce": lambda _: dist.reduce(place, 0),
            "alltoall": lambda message: dist.all_to_all_single(result, message),
            BARRIER: lambda _: dist.barrier(),
        }
        name = cell.operation.name
        once = operate[name]
        in_place = name in ("allreduce", "bcast", "reduce")
        sends = name != "bcast" or cell.expected[0] is None

        def prepare(message: Any) -> object:  # noqa: ANN401 - a tensor
            return place.copy_(message) if sends else place.zero_()

        arrived = place if in_place else result
        received = (lambda: arrived.cpu().numpy()) if cell.expected[0] is not None else None
        return self.repeated(cell, once, inputs, self._wait, received, prepare)

    def _wait(self) -> None:
        """Wait until the GPU has finished its work."""
        if self._backend == "nccl":
            self._torch.cuda.synchronize()

    def close(self) -> None:
        self._torch.distributed.destroy_process_group()
