"""The memory of one rank of the pair, and the messages in it."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

from cluster.benchmarks.p2p.definitions import (
    BIDIRECTIONAL,
    COPIED_AT_ONCE,
    COPY,
    LATENCY,
    RECEIVED,
    WINDOW,
    WINDOWED,
    series_of,
)
from cluster.core.units import format_size
from cluster.measure.payload import aligned, inverse, pattern

if TYPE_CHECKING:
    from mpi4py.MPI import Comm

    from cluster.benchmarks.p2p.params import P2PParams
    from cluster.core.model.measurements import Definition
    from cluster.measure.buffers import Memory, Piece


RING = 1 << 14  # bytes of small messages that are received before they are checked together


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
        incoming = data.copied if definition is COPY else data.incoming
        self._incoming = [incoming[k * size : (k + 1) * size] for k in range(self.places)]
        self.window = data.window_of(definition, size)
        self._what = f"{definition.metric} of {format_size(size)}"
        self._check = data.memory.check
        if definition is not COPY or data.first:
            data.memory.clear(incoming)

    def message(self, number: int) -> tuple[Piece, Piece]:
        """Return the bytes that a message sends, and the slot where it arrives."""
        lap, place = divmod(number, self.places)
        return self.patterns[lap % 2], self._incoming[place]

    def check(self, number: int) -> None:
        """Compare what arrived with what was sent."""
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
        self.shortened: dict[tuple[str, int], int] = {}  # windows, by metric and size
        bytes_ = pattern(largest)
        self.patterns = memory.put(bytes_), memory.put(inverse(bytes_))
        self.incoming = memory.zeros(largest)
        copies = COPY.metric in params.metrics and params.buffer == "cpu"
        self.copied = _shared(comm, largest) if copies else self.incoming

    def takes(self, definition: Definition) -> bool:
        """Check whether this rank records the values of a metric."""
        if definition is RECEIVED:
            return not self.first
        return self.first or definition.aggregation != "one rank"

    def moved(self, definition: Definition, size: int) -> int:
        """Return the bytes that move during one value."""
        return size * self.window_of(definition, size) * (2 if definition is BIDIRECTIONAL else 1)

    def window_of(self, definition: Definition, size: int) -> int:
        """Return how many messages, or copies, a value is of."""
        if definition is COPY:
            return max(1, COPIED_AT_ONCE // size)
        window = self.window if definition in WINDOWED else 1
        return self.shortened.get((definition.metric, size), window)


def _shared(comm: Comm, size: int) -> Piece:
    """Allocate a buffer of the second rank that the first can write to; its own on another host."""
    import numpy as np  # noqa: PLC0415 - not needed to list or plan benchmarks
    from mpi4py import MPI  # noqa: PLC0415 - importing it starts MPI

    host = comm.Split_type(MPI.COMM_TYPE_SHARED, comm.Get_rank())
    if host.Get_size() < comm.Get_size():
        return aligned(size)
    own = os.memfd_create("copies")
    place = comm.bcast(f"/proc/{os.getpid()}/fd/{own}", 1)
    os.ftruncate(own, size)
    comm.Barrier()
    with open(place, "r+b", buffering=0) as file:  # noqa: PTH123 - not a path of a file system
        block = np.frombuffer(mmap.mmap(file.fileno(), size), np.uint8)
    if comm.Get_rank():
        block[:] = 0
    comm.Barrier()
    os.close(own)
    return block
