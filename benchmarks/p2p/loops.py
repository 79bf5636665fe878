"""The memory of one rank of the pair, and the loops over its messages: in Python, and in C."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, ClassVar

from cluster.benchmarks.p2p.definitions import (
    BANDWIDTH,
    BIDIRECTIONAL,
    BLOCKING,
    COPIED_AT_ONCE,
    COPY,
    LATENCY,
    RECEIVED,
    WINDOW,
    WINDOWED,
    series_of,
)
from cluster.core.text.units import format_size
from cluster.measure.buffers import WrongDataError, allocate, inverse, pattern
from cluster.measure.kernels import address, timed_in_c

if TYPE_CHECKING:
    from mpi4py.MPI import Comm, Datatype

    from cluster.benchmarks.p2p.definitions import P2PParams
    from cluster.core.model.results.measurements import Definition
    from cluster.measure.buffers import Memory, Piece

    Once = Callable[[Piece, Piece], float]
    """One repetition, with the block to send and the block to receive into; gives its seconds."""

RING = 1 << 14  # bytes of small messages that are received before they are checked together
TAG_DATA = 100
TAG_ACK = 101


class Messages:
    """Messages of one size in bytes between the two ranks of the pair, numbered from 0.

    Two patterns with inverse bits alternate in each slot of the receive buffer, so that a missing
    byte is noticed. Round trips of small messages use up to 64 slots, which fit into the
    first-level cache and are checked together; all other messages use one.
    """

    def __init__(self, data: PairMemory, definition: Definition, size: int) -> None:
        fitting = min(64, 1 << max(0, (RING // size).bit_length() - 1))
        self.places = fitting if definition is LATENCY else 1
        self.size = size
        self.number = 0
        self.patterns = data.patterns[0][:size], data.patterns[1][:size]
        self._incoming = [data.incoming[k * size : (k + 1) * size] for k in range(self.places)]
        self.window = data.window_of(definition, size)
        self.lead = min(size, data.lead)  # bytes of an untimed round trip
        self._what = f"{definition.metric} of {format_size(size)}"
        self._check = data.memory.check
        data.memory.clear(data.incoming)

    def message(self, number: int) -> tuple[Piece, Piece]:
        """Return the bytes that a message sends, and the slot where it arrives."""
        lap, place = divmod(number, self.places)
        return self.patterns[lap % 2], self._incoming[place]

    def check(self, number: int) -> None:
        outgoing, incoming = self.message(number)
        self._check(incoming, outgoing, self._what)


class PairMemory:
    """The memory of one rank of the pair, allocated once; both send the same bytes."""

    def __init__(self, comm: Comm, params: P2PParams, memory: Memory) -> None:
        largest = max(size for _, size in series_of((COPY,), params))
        self.comm = comm
        self.memory = memory
        self.first = comm.Get_rank() == 0
        self.peer = 1 - comm.Get_rank()
        self.window = params.window or WINDOW
        self.short_windows: dict[tuple[str, int], int] = {}  # windows, by metric and size
        self.lead = largest  # bytes that an untimed round trip has at most
        bytes_ = pattern(largest)
        self.patterns = memory.put(bytes_), memory.put(inverse(bytes_))
        self.incoming = memory.zeros(largest)

    def takes(self, definition: Definition) -> bool:
        """Check whether this rank records the values of a metric."""
        if definition is RECEIVED:
            return not self.first
        return self.first or definition.aggregation != "one rank"

    def count_bytes(self, definition: Definition, size: int) -> int:
        """Return the bytes that move during one value."""
        return size * self.window_of(definition, size) * (2 if definition is BIDIRECTIONAL else 1)

    def window_of(self, definition: Definition, size: int) -> int:
        """Return how many messages, or copies, a value is of."""
        if definition is COPY:
            return max(1, COPIED_AT_ONCE // size)
        window = self.window if definition in WINDOWED else 1
        return self.short_windows.get((definition.metric, size), window)


class MpiPairLoops:
    """The timed loops in Python.

    Each metric is a function `repeat(n)` that does `n` repetitions and gives the seconds of each,
    or an empty list on the rank that does not record this metric.
    """

    def __init__(self, data: PairMemory) -> None:
        self.data = data
        self.moves = data.memory.moves(data.comm)

    def redefine(self, definition: Definition) -> Definition:
        return self.data.memory.redefine(definition)

    def loop(self, definition: Definition, messages: Messages) -> Callable[[int], list[float]]:
        if definition is LATENCY:
            return self._latency(messages)
        if definition is COPY:
            return self._copy(messages)
        if definition in BLOCKING:
            once = self._oneway(messages)
        elif definition is BANDWIDTH:
            once = self._bandwidth(messages)
        else:
            once = self._bidirectional(messages)
        takes, ready = self.data.takes(definition), self.moves.ready
        checks = definition is BIDIRECTIONAL or not self.data.first

        def repeat(n: int) -> list[float]:
            seconds = []
            for _ in range(n):
                outgoing, incoming = messages.message(messages.number)
                ready()
                seconds.append(once(outgoing, incoming))
                if checks:
                    messages.check(messages.number)
                messages.number += 1
            return seconds if takes else []

        return repeat

    def _oneway(self, _: Messages) -> Once:
        first, peer = self.data.first, self.data.peer
        send, receive = self.moves.send, self.moves.receive

        def once(outgoing: Piece, incoming: Piece) -> float:
            if first:
                start = perf_counter_ns()
                send(outgoing, peer, TAG_DATA)
                return (perf_counter_ns() - start) / 1e9
            start = perf_counter_ns()
            receive(incoming, peer, TAG_DATA)
            return (perf_counter_ns() - start) / 1e9

        return once

    def _latency(self, messages: Messages) -> Callable[[int], list[float]]:
        """Send messages to the peer and back; they are checked after the last of a batch."""
        peer, first = self.data.peer, self.data.first
        ready, send, receive = self.moves.ready, self.moves.send, self.moves.receive

        def ping(outgoing: Piece, incoming: Piece) -> float:
            start = perf_counter_ns()
            send(outgoing, peer, TAG_DATA)
            receive(incoming, peer, TAG_DATA)
            return (perf_counter_ns() - start) / 2e9

        def pong(outgoing: Piece, incoming: Piece) -> float:
            receive(incoming, peer, TAG_DATA)
            send(outgoing, peer, TAG_DATA)
            return 0.0

        half = ping if first else pong

        def batch(n: int) -> list[float]:
            numbers = range(messages.number, messages.number + n)
            seconds = [half(*messages.message(number)) for number in numbers]
            for number in numbers:
                messages.check(number)
            ready()
            half(*(piece[: messages.lead] for piece in messages.message(numbers[-1])))
            messages.number = numbers.stop
            return seconds

        def repeat(n: int) -> list[float]:
            places = messages.places
            seconds = [s for i in range(0, n, places) for s in batch(min(places, n - i))]
            return seconds if first else []

        return repeat

    def _copy(self, messages: Messages) -> Callable[[int], list[float]]:
        """Copy on the first rank, while the second waits."""
        import numpy as np  # noqa: PLC0415 - not needed to list or plan benchmarks

        window, first, comm = range(messages.window), self.data.first, self.data.comm

        def once(outgoing: Piece, incoming: Piece) -> float:
            start = perf_counter_ns()
            for _ in window:
                np.copyto(incoming, outgoing)
            return (perf_counter_ns() - start) / 1e9

        def repeat(n: int) -> list[float]:
            numbers = range(messages.number, messages.number + n) if first else ()
            seconds = [once(*messages.message(number)) for number in numbers]
            messages.number += n
            comm.Barrier()
            return seconds

        return repeat

    def _bandwidth(self, messages: Messages) -> Once:
        """Keep a window of messages to the peer in flight."""
        ack, window, peer = bytearray(4), range(messages.window), self.data.peer
        comm, wait = self.data.comm, self.moves.wait
        isend, irecv = self.moves.isend, self.moves.irecv

        def source(outgoing: Piece, _: Piece) -> float:
            start = perf_counter_ns()
            wait([isend(outgoing, peer, TAG_DATA) for _ in window])
            comm.Recv(ack, peer, TAG_ACK)
            return (perf_counter_ns() - start) / 1e9

        def sink(_: Piece, incoming: Piece) -> float:
            wait([irecv(incoming, peer, TAG_DATA) for _ in window])
            comm.Send(ack, peer, TAG_ACK)
            return 0.0

        return source if self.data.first else sink

    def _bidirectional(self, messages: Messages) -> Once:
        """Keep a window of messages in flight in both directions at once."""
        window, peer = range(messages.window), self.data.peer
        comm, wait = self.data.comm, self.moves.wait
        isend, irecv = self.moves.isend, self.moves.irecv
        ack_out, ack_in = bytearray(4), bytearray(4)

        def once(outgoing: Piece, incoming: Piece) -> float:
            start = perf_counter_ns()
            receives = [irecv(incoming, peer, TAG_DATA) for _ in window]
            wait(receives + [isend(outgoing, peer, TAG_DATA) for _ in window])
            comm.Sendrecv(ack_out, peer, TAG_ACK, ack_in, peer, TAG_ACK)
            return (perf_counter_ns() - start) / 1e9

        return once


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
        self._requests = allocate(2 * data.window * MPI._sizeof(MPI.Request))  # noqa: SLF001
        self._nanoseconds = allocate(8 * MOST_AT_ONCE).view("float64")

    def redefine(self, definition: Definition) -> Definition:
        return timed_in_c(definition)

    def loop(self, definition: Definition, messages: Messages) -> Callable[[int], list[float]]:
        count, kind = _count_and_type(messages.size)
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


def _count_and_type(size: int) -> tuple[int, Datatype]:
    """Return count and datatype of a message for MPI, whose counts are C's int."""
    from mpi4py import MPI  # noqa: PLC0415

    if size <= MOST_COUNT:
        return size, MPI.BYTE
    return 1, MPI.BYTE.Create_contiguous(size).Commit()
