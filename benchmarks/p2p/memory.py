"""The memory of one rank of the pair, and the messages in it."""

from __future__ import annotations

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
from cluster.measure.payload import inverse, pattern

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
        self.shortened: dict[tuple[str, int], int] = {}  # windows, by metric and size
        self.lead = largest  # bytes that an untimed round trip has at most
        bytes_ = pattern(largest)
        self.patterns = memory.put(bytes_), memory.put(inverse(bytes_))
        self.incoming = memory.zeros(largest)

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
