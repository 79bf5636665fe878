"""MPI's collectives, timed by a loop in C."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from cluster.benchmarks.collectives.loops import CollectiveLoops
from cluster.benchmarks.collectives.operations import NUMBER, OPERATIONS
from cluster.measure.kernels import address, timed_in_c
from cluster.measure.payload import WrongDataError, aligned

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from cluster.benchmarks.collectives.series import CollectiveSeries
    from cluster.core.model.measurements import Definition


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
        self._nanoseconds = aligned(8 * MOST_AT_ONCE).view("float64")

    def defined(self, definition: Definition) -> Definition:
        return timed_in_c(definition)

    def prepared(self, cell: CollectiveSeries) -> Callable[[int], list[float]]:
        collect, nanoseconds = self._collect, self._nanoseconds
        places = tuple(None if result is None else result.ctypes.data for result in cell.expected)
        group = GroupStruct(
            comm=address(self._comm),
            given=tuple(array.ctypes.data for array in cell.inputs),
            result=cell.result.ctypes.data,
            expected=places,
            nanoseconds=nanoseconds.ctypes.data,
            bytes=cell.result.nbytes,
            count=_count(cell),
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


def _count(cell: CollectiveSeries) -> int:
    """Return the count for MPI: of the whole message, or of one rank's part."""
    unit = NUMBER if cell.operation.reduces else 1
    parts = cell.comm.Get_size() if cell.operation.divides else 1
    return cell.size // unit // parts
