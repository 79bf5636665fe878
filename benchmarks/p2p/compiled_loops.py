"""The timed loops in C."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from cluster.measure.kernels import address, timed_in_c
from cluster.measure.payload import WrongDataError, aligned

if TYPE_CHECKING:
    from mpi4py.MPI import Datatype

    from cluster.benchmarks.p2p.memory import Messages, PairMemory
    from cluster.core.model.measurements import Definition


MOST_AT_ONCE = 1 << 10  # repetitions
MOST_COUNT = 2**31 - 1  # the largest count of MPI


class PairStruct(ctypes.Structure):
    """The arguments of the C loops (`struct pair` of kernels/p2p.c)."""

    _fields_: ClassVar = [
        ("comm", ctypes.c_void_p),
        ("type", ctypes.c_void_p),
        ("requests", ctypes.c_void_p),
        ("pattern", ctypes.c_void_p * 2),
        ("incoming", ctypes.c_void_p),
        ("nanoseconds", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("number", ctypes.c_int64),
        ("count", ctypes.c_int32),
        ("window", ctypes.c_int32),
        ("shift", ctypes.c_int32),
        ("lead", ctypes.c_int32),
        ("first", ctypes.c_int32),
    ]


class CompiledPairLoops:
    """The timed loops in C, kernels/p2p.c, with the same functions as `MpiPairLoops`."""

    def __init__(self, data: PairMemory, library: ctypes.CDLL) -> None:
        from mpi4py import MPI  # noqa: PLC0415 - importing it starts MPI

        data.comm.Set_errhandler(MPI.ERRORS_ARE_FATAL)  # the loops check no error codes
        self.data = data
        self._library = library
        self._requests = aligned(2 * data.window * MPI._sizeof(MPI.Request))  # noqa: SLF001
        self._nanoseconds = aligned(8 * MOST_AT_ONCE).view("float64")

    def defined(self, definition: Definition) -> Definition:
        return timed_in_c(definition)

    def prepared(self, definition: Definition, messages: Messages) -> Callable[[int], list[float]]:
        count, kind = _counted(messages.size)
        outgoing, incoming = messages.message(0)
        pair = PairStruct(
            comm=address(self.data.comm),
            type=address(kind),
            requests=self._requests.ctypes.data,
            pattern=tuple(bytes_.ctypes.data for bytes_ in messages.patterns),
            incoming=incoming.ctypes.data,
            nanoseconds=self._nanoseconds.ctypes.data,
            size=messages.size,
            count=count,
            window=messages.window,
            shift=messages.places.bit_length() - 1,
            lead=min(count, messages.lead),
            first=self.data.first,
        )
        function = self._library[definition.metric]
        function.restype, function.argtypes = (
            ctypes.c_int64,
            (ctypes.POINTER(PairStruct), ctypes.c_int64),
        )
        takes, nanoseconds = self.data.takes(definition), self._nanoseconds
        alive = kind, outgoing  # as long as C has their addresses

        def repeat(n: int) -> list[float]:
            wrong = function(pair, n)
            if wrong >= 0:
                messages.check(wrong)
                raise WrongDataError(f"message {wrong} arrived wrong, and is correct now")
            return (nanoseconds[:n] / 1e9).tolist() if takes and alive else []

        return repeat


def _counted(size: int) -> tuple[int, Datatype]:
    """Return count and datatype of a message for MPI, whose counts are C's int."""
    from mpi4py import MPI  # noqa: PLC0415

    if size <= MOST_COUNT:
        return size, MPI.BYTE
    return 1, MPI.BYTE.Create_contiguous(size).Commit()
