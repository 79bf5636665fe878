"""The timed loops in Python."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING

from cluster.benchmarks.p2p.definitions import BANDWIDTH, BIDIRECTIONAL, BLOCKING, COPY, LATENCY

if TYPE_CHECKING:
    from cluster.benchmarks.p2p.memory import Messages, PairMemory
    from cluster.core.model.measurements import Definition
    from cluster.measure.buffers import Piece

    Once = Callable[[Piece, Piece], float]
    """One repetition, with the block to send and the block to receive into; gives its seconds."""


TAG_DATA = 100
TAG_ACK = 101


class MpiPairLoops:
    """The timed loops in Python.

    Each metric is a function `repeat(n)` that does `n` repetitions and gives the seconds of each,
    or an empty list on the rank that does not record this metric.
    """

    def __init__(self, data: PairMemory) -> None:
        self.data = data
        self.moves = data.memory.moves(data.comm)

    def defined(self, definition: Definition) -> Definition:
        return self.data.memory.defined(definition)

    def prepared(self, definition: Definition, messages: Messages) -> Callable[[int], list[float]]:
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
