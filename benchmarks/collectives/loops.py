"""The timed loops of `collectives`: over MPI, also in C, over torch.distributed and NCCL."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, ClassVar

from cluster.benchmarks.collectives.operations import BARRIER, NUMBER, OPERATIONS, CollectiveSeries
from cluster.core.model.results.measurements import Definition
from cluster.measure import groups
from cluster.measure.buffers import WrongDataError, allocate, own_gpu, place_on_host
from cluster.measure.kernels import address, timed_in_c
from cluster.measure.rank import Rank

if TYPE_CHECKING:
    import numpy as np
    from mpi4py.MPI import Intracomm
    from numpy.typing import NDArray

    Data = NDArray[np.uint8] | NDArray[np.float32]


class CollectiveLoops:
    """Does the repetitions: `loop` gives a function from their number to their seconds."""

    def redefine(self, definition: Definition) -> Definition:
        """Return the definition under which values are recorded."""
        return definition

    def loop(self, cell: CollectiveSeries) -> Callable[[int], list[float]]:
        """Return the function that repeats an operation, and returns the seconds of each."""
        raise NotImplementedError

    def repeater(
        self,
        cell: CollectiveSeries,
        once: Callable[[Any], object],
        messages: Sequence[Any],
        clock: Callable[[], int] = perf_counter_ns,
        fetch: Callable[[], Any] | None = None,
        prepare: Callable[[Any], object] = lambda _: None,
    ) -> Callable[[int], list[float]]:
        """Return a function that repeats an operation; `clock` is read once the device is done.

        The messages take turns; `prepare` is not timed. What arrives is checked, after a `fetch`.
        """

        def repeat(n: int) -> list[float]:
            seconds = []
            for _ in range(n):
                message = messages[cell.number % 2]
                prepare(message)
                clock()
                cell.comm.Barrier()
                start = perf_counter_ns()
                once(message)
                seconds.append((clock() - start) / 1e9)
                if fetch:
                    cell.result[:] = fetch()
                cell.check(cell.number)
                cell.number += 1
            return seconds

        return repeat

    def close(self) -> None:
        """Leave the process group, if there is one."""


class MpiLoops(CollectiveLoops):
    """MPI's collectives."""

    def loop(self, cell: CollectiveSeries) -> Callable[[int], list[float]]:
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
        return self.repeater(cell, operate[cell.operation.name], cell.inputs)


class TorchLoops(CollectiveLoops):
    """The collectives of torch.distributed, with gloo or nccl."""

    def __init__(self, rank: Rank, backend: str) -> None:
        self._torch = groups.require_torch(backend, f"--transport={backend}")
        self._backend = backend
        self._device = groups.choose_gpu(rank, self._torch) if backend == "nccl" else "cpu"
        rank.note(f"torch {self._torch.__version__} did the operations, over {backend}.")
        groups.join_torch(rank, self._torch, backend)

    def loop(self, cell: CollectiveSeries) -> Callable[[int], list[float]]:
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

        target = place if in_place else result
        fetch = (lambda: target.cpu().numpy()) if cell.expected[0] is not None else None
        return self.repeater(cell, once, inputs, self._clock, fetch, prepare)

    def _clock(self) -> int:
        if self._backend == "nccl":
            self._torch.cuda.synchronize()
        return perf_counter_ns()

    def close(self) -> None:
        self._torch.distributed.destroy_process_group()


class NcclLoops(CollectiveLoops):
    """NCCL's collectives, called by nccl4py on arrays of torch or CuPy."""

    def __init__(self, rank: Rank) -> None:
        self._nccl = groups.require_nccl4py()
        self._gpu = own_gpu(place_on_host(rank.comm), groups.INSTEAD)()
        self._group = groups.join_nccl(rank, self._nccl)
        version = self._nccl.get_version()
        rank.note(
            f"nccl4py {version.nccl4py} did the operations, over NCCL {version.libnccl.version}, "
            f"with arrays of {self._gpu.module}."
        )

    def loop(self, cell: CollectiveSeries) -> Callable[[int], list[float]]:
        gpu, group, add = self._gpu, self._group, self._nccl.SUM
        inputs = [gpu.put(g) for g in cell.inputs]
        receives = cell.expected[0] is not None
        result = gpu.put(cell.result)
        operate: dict[str, Callable[[Any], object]] = {
            "allreduce": lambda message: group.allreduce(message, result, add),
            "allgather": lambda message: group.allgather(message, result),
            "reduce_scatter": lambda message: group.reduce_scatter(message, result, add),
            # of a broadcast, rank 0 gets its own array back
            "bcast": lambda message: group.broadcast(message, result if receives else message, 0),
            "reduce": lambda message: group.reduce(message, result, add, 0),
            "alltoall": lambda message: group.alltoall(message, result),
        }

        def clock() -> int:
            gpu.synchronise()
            return perf_counter_ns()

        fetch = partial(gpu.fetch, result) if receives else None
        return self.repeater(cell, operate[cell.operation.name], inputs, clock, fetch)

    def close(self) -> None:
        self._group.destroy()


MOST_AT_ONCE = 64  # repetitions


class GroupStruct(ctypes.Structure):
    """The arguments of the C loop (`struct group` of kernels/collectives.c)."""

    _fields_: ClassVar = [
        ("comm", ctypes.c_void_p),
        ("given", ctypes.c_void_p * 2),
        ("result", ctypes.c_void_p),
        ("expected", ctypes.c_void_p * 2),
        ("nanoseconds", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("number", ctypes.c_int64),
        ("count", ctypes.c_int32),
        ("operation", ctypes.c_int32),
    ]


class CompiledLoops(CollectiveLoops):
    """MPI's collectives, timed by a loop in C."""

    def __init__(self, comm: Intracomm, library: ctypes.CDLL) -> None:
        from mpi4py import MPI  # noqa: PLC0415 - importing it starts MPI

        comm.Set_errhandler(MPI.ERRORS_ARE_FATAL)  # the loop checks no error codes
        self._comm = comm
        self._collect = library.collect
        self._collect.restype = ctypes.c_int64
        self._collect.argtypes = ctypes.POINTER(GroupStruct), ctypes.c_int64
        self._nanoseconds = allocate(8 * MOST_AT_ONCE).view("float64")

    def redefine(self, definition: Definition) -> Definition:
        return timed_in_c(definition)

    def loop(self, cell: CollectiveSeries) -> Callable[[int], list[float]]:
        collect, nanoseconds = self._collect, self._nanoseconds
        unit = NUMBER if cell.operation.reduces else 1
        parts = cell.comm.Get_size() if cell.operation.divides else 1
        places = tuple(None if result is None else result.ctypes.data for result in cell.expected)
        group = GroupStruct(
            comm=address(self._comm),
            given=tuple(array.ctypes.data for array in cell.inputs),
            result=cell.result.ctypes.data,
            expected=places,
            nanoseconds=nanoseconds.ctypes.data,
            bytes=cell.result.nbytes,
            count=cell.size // unit // parts,  # of the whole message, or of one rank's part
            operation=OPERATIONS.index(cell.operation),
        )

        def repeat(n: int) -> list[float]:
            wrong = collect(group, n)
            if wrong >= 0:
                cell.check(wrong)
                raise WrongDataError(f"{cell.what}: result {wrong} was wrong, and is correct now")
            seconds: list[float] = (nanoseconds[:n] / 1e9).tolist()
            return seconds

        return repeat
