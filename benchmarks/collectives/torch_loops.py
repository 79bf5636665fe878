"""The collectives of torch.distributed, with gloo or nccl, timed by a loop in Python."""

from __future__ import annotations

import os
import sys
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from cluster.agent.interfaces import list_interfaces
from cluster.benchmarks.collectives.loops import CollectiveLoops
from cluster.benchmarks.collectives.operations import (
    BARRIER,
)
from cluster.core.errors import ClusterError
from cluster.measure.buffers import place_on_host
from cluster.measure.subprocesses import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.benchmarks.collectives.series import CollectiveSeries
    from cluster.measure.rank import Rank


class TorchLoops(CollectiveLoops):
    """The collectives of torch.distributed, timed by a loop in Python.

    Args:
        rank: this rank.
        backend: gloo or nccl.

    """

    def __init__(self, rank: Rank, backend: str) -> None:
        """Join a process group of all ranks."""
        self._torch = _torch(backend)
        self._backend = backend
        self._device = _device(rank, self._torch) if backend == "nccl" else "cpu"
        rank.note(f"torch {self._torch.__version__} did the operations, over {backend}.")
        _join(rank, self._torch, backend)

    def prepared(self, cell: CollectiveSeries) -> Callable[[int], list[float]]:
        """Give the function that repeats an operation."""
        torch, comm = self._torch, cell.comm
        dist = torch.distributed
        result = torch.from_numpy(cell.result).to(self._device)
        given = [torch.from_numpy(g.copy()).to(self._device) for g in cell.given]
        place = torch.empty_like(given[0])  # the buffer of operations in place
        operate: dict[str, Callable[[Any], object]] = {
            "allreduce": lambda _: dist.all_reduce(place),
            "allgather": lambda sent: dist.all_gather_into_tensor(result, sent),
            "reduce_scatter": lambda sent: dist.reduce_scatter_tensor(result, sent),
            "bcast": lambda _: dist.broadcast(place, 0),
            "reduce": lambda _: dist.reduce(place, 0),
            "alltoall": lambda sent: dist.all_to_all_single(result, sent),
            BARRIER: lambda _: dist.barrier(),
        }
        name = cell.operation.name
        once = operate[name]
        in_place = name in ("allreduce", "bcast", "reduce")
        sends = name != "bcast" or cell.expected[0] is None

        def repeat(n: int) -> list[float]:
            found = []
            for _ in range(n):
                sent = given[cell.number % 2]
                place.copy_(sent) if sends else place.zero_()
                self._wait()
                comm.Barrier()
                start = perf_counter_ns()
                once(sent)
                self._wait()
                found.append((perf_counter_ns() - start) / 1e9)
                if cell.expected[0] is not None:
                    cell.result[:] = (place if in_place else result).cpu().numpy()
                cell.check(cell.number)
                cell.number += 1
            return found

        return repeat

    def _wait(self) -> None:
        """Wait until the GPU has finished its work."""
        if self._backend == "nccl":
            self._torch.cuda.synchronize()

    def close(self) -> None:
        """Leave the process group."""
        self._torch.distributed.destroy_process_group()


def _torch(backend: str) -> Any:  # noqa: ANN401 - a module that is optional
    """Import torch, or refuse to go on if it is missing or lacks the backend."""
    try:
        import torch  # noqa: PLC0415 - hundreds of megabytes, which cluster does not install
    except ImportError:
        raise ClusterError(
            f"torch is missing on {os.uname().nodename}.",
            means=f"--transport={backend} uses it, and cluster does not install it.",
            remedy=f"Install it there: {sys.executable} -m pip install torch; or name "
            "an image that has it: --option image=NAME",
        ) from None
    if not getattr(torch.distributed, f"is_{backend}_available")():
        raise ClusterError(
            f"torch {torch.__version__} on {os.uname().nodename} comes without {backend}.",
            remedy="Install a torch that has it; nccl comes with those for CUDA.",
        )
    return torch


def _device(rank: Rank, torch: Any) -> str:  # noqa: ANN401
    """Give each rank of a host a GPU of its own."""
    own, all_ = place_on_host(rank.comm)
    there = torch.cuda.device_count()
    if there < all_:
        raise ClusterError(
            f"{os.uname().nodename} has {there} GPU(s) for {all_} ranks.",
            means="With nccl every rank needs a GPU of its own.",
            remedy=f"Ask for fewer: --ranks-per-host {max(1, there)}",
        )
    torch.cuda.set_device(own)
    return f"cuda:{own}"


def _join(rank: Rank, torch: Any, backend: str) -> None:  # noqa: ANN401
    """Join all ranks at rank 0, by the address at which the others reach it."""
    here = rank.addresses()
    for interface in list_interfaces():
        if interface.address == here[rank.number]:
            names = dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), interface.name)
            os.environ.update(names)
    port = rank.comm.bcast(free_port(here[0]) if rank.number == 0 else None)
    torch.distributed.init_process_group(
        backend,
        init_method=f"tcp://{here[0]}:{port}",
        rank=rank.number,
        world_size=rank.size,
    )
