"""Two ranks exchange messages: one-way time, latency, bandwidth, bidirectional bandwidth.

Iteration and warm-up counts, and the window of 64, are those of the OSU Micro-Benchmarks 7.4
(c/util/osu_util.h), where messages above 8192 B are "large".
"""

from __future__ import annotations

import ctypes
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, ClassVar

from cluster.core.errors import SpecError
from cluster.core.model.measurements import Definition, Planned
from cluster.core.units import Sizes, format_size, format_value
from cluster.measure.benchmark import Benchmark, check_pair
from cluster.measure.buffers import Buffers, on_gpus, open_memory
from cluster.measure.kernels import Choice, address, definitions_for, load, timed_in_c
from cluster.measure.main import main
from cluster.measure.payload import WrongDataError, aligned, inverse, pattern
from cluster.measure.repetitions import Counts, Repetitions, samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mpi4py.MPI import Comm, Datatype

    from cluster.core.model.hosts import Facts
    from cluster.measure.buffers import Memory, Piece
    from cluster.measure.rank import Rank

    Once = Callable[[Piece, Piece], float]
    """One repetition with what is sent and where it arrives; gives its seconds."""

TAG_DATA = 100
TAG_ACK = 101
LARGE = 8192  # bytes; above it OSU does fewer iterations
WINDOW = 64  # messages
COPIED = 1 << 16  # bytes: large enough to be fast, small enough for any cache
RING = 1 << 14  # bytes of small messages that are kept until they are checked
AT_ONCE = 1 << 20  # bytes, about, that are exchanged before their times are looked at
MOST_AT_ONCE = 1 << 10  # repetitions
MOST_COUNT = 2**31 - 1  # what MPI takes as a count
CLOCK = "time.perf_counter_ns of the rank that took the value (CLOCK_MONOTONIC)"

ONEWAY = Definition(
    benchmark="p2p",
    metric="oneway_time",
    unit="s",
    better="lower",
    what=(
        "one blocking MPI_Send from the first rank of the pair to the second: the sender's value "
        "is the time until its buffer was free again, the receiver's the time in MPI_Recv"
    ),
    clock=CLOCK,
    synchronisation="barrier of the pair before each value, outside the timed region",
    warm_up="2 messages, not timed, unless said otherwise",
    aggregation="each rank",
    flow="one way",
)
RECEIVED = Definition(
    benchmark="p2p",
    metric="oneway_bandwidth",
    unit="B/s",
    better="higher",
    what=(
        "one blocking MPI_Send from the first rank of the pair to the second: all bytes over the "
        "second's time in MPI_Recv"
    ),
    clock=CLOCK,
    synchronisation="barrier of the pair before each value, outside the timed region",
    warm_up="2 messages, not timed, unless said otherwise",
    aggregation="one rank",
    flow="one way",
)
LATENCY = Definition(
    benchmark="p2p",
    metric="latency",
    unit="s",
    better="lower",
    what="half of one blocking round trip (MPI_Send and MPI_Recv on both sides)",
    clock=CLOCK,
    synchronisation=(
        "each round trip orders the next; after at most 64 of them all received bytes are checked, "
        "then a barrier of the pair and one untimed round trip lead to the next value"
    ),
    warm_up="100 round trips up to 8192 B, 10 above, not timed, unless said otherwise",
    aggregation="one rank",
)
BANDWIDTH = Definition(
    benchmark="p2p",
    metric="bandwidth",
    unit="B/s",
    better="higher",
    what=(
        "a window of non-blocking sends of one buffer (64 unless said otherwise; two buffers take "
        "turns, window by window), and one 4 B acknowledgement after the last: all bytes of the "
        "window over the time until it came; then what arrived is checked"
    ),
    clock=CLOCK,
    synchronisation="barrier of the pair before each value, outside the timed region",
    warm_up="10 windows up to 8192 B, 2 above, not timed, unless said otherwise",
    aggregation="one rank",
    flow="one way",
)
BIDIRECTIONAL = Definition(
    benchmark="p2p",
    metric="bidirectional",
    unit="B/s",
    better="higher",
    what=(
        "both ranks post a window of non-blocking receives and sends (64 unless said otherwise), "
        "wait for all, and acknowledge with 4 B: the bytes of both directions over the time; then "
        "what arrived is checked"
    ),
    clock=CLOCK,
    synchronisation="barrier of the pair before each value, outside the timed region",
    warm_up="10 windows up to 8192 B, 2 above, not timed, unless said otherwise",
    aggregation="slowest rank",
    flow="both ways",
)

COPY = Definition(
    benchmark="p2p",
    metric="memory_copy",
    unit="B/s",
    better="higher",
    what=(
        "a window of copies of 64 KiB, one after another, from one buffer of the first rank to "
        "another (64 unless said otherwise): all bytes over the time; messages between ranks of "
        "one host are copied at least once, so it bounds them"
    ),
    clock=CLOCK,
    synchronisation="the other rank waits in a barrier meanwhile",
    warm_up="10 windows, not timed, unless said otherwise",
    aggregation="one rank",
)

BLOCKING = (ONEWAY, RECEIVED)  # one message at a time, each of which people see


class P2PParams(Repetitions, frozen=True, kw_only=True):
    """The parameters of `p2p`.

    Args:
        metrics: What to take, of those above.
        sizes: Such as 8:64MiB (powers of two) or 8,65536.
        window: Messages in flight. [default: 64]
        pair: The two ranks that exchange messages.
        kernel: The timed loops: c, python, or auto.
        buffer: Memory of the messages: cpu or cuda.

    """

    metrics: tuple[str, ...] = ("memory_copy", "latency", "bandwidth")
    sizes: Sizes = Sizes.parse("8:4MiB")
    window: int | None = None
    pair: tuple[int, int] = (0, 1)
    kernel: Choice = "auto"
    buffer: Buffers = "cpu"


class P2P(Benchmark[P2PParams]):
    """Point-to-point messages between any two ranks."""

    Params = P2PParams
    metrics: ClassVar[tuple[Definition, ...]] = (
        *(ONEWAY, RECEIVED, LATENCY, BANDWIDTH, BIDIRECTIONAL, COPY),
    )

    def check(self, params: P2PParams, ranks: int) -> None:
        """Refuse unknown metrics, empty work, and ranks that do not exist."""
        if not self.selected(params):
            raise SpecError(
                "--buffer cuda leaves nothing to take: memory_copy is of the processor's memory.",
                remedy="Name other metrics: --metrics latency,bandwidth",
            )
        params.check()
        _check_window(params)
        if params.buffer == "cuda" and params.kernel == "c":
            raise SpecError("--kernel c is for --buffer cpu: the loops in C know no GPU.")
        if not params.sizes:
            raise SpecError("There are no sizes.", remedy="Give some: --sizes 8:64MiB")
        check_pair(params.pair, ranks)

    def selected(self, params: P2PParams) -> tuple[Definition, ...]:
        """Give the definitions of the metrics asked for, in that order.

        A copy by the processor is nothing to GPUs.
        """
        named = self.named(params.metrics)
        return tuple(of for of in named if params.buffer == "cpu" or of is not COPY)

    def recorded(self, params: P2PParams) -> tuple[Definition, ...]:
        """Give those of both loops, if the hosts decide which of them runs."""
        selected = self.selected(params)
        if params.buffer == "cuda":
            return tuple(map(on_gpus, selected))
        return definitions_for(selected, params.kernel)

    def gpus(self, params: P2PParams, ranks_per_host: int) -> int:
        """Tell how many GPUs a host needs: one for each rank of the pair that is there."""
        if params.buffer == "cpu":
            return 0
        first, second = (number // ranks_per_host for number in params.pair)
        return 2 if first == second else 1

    def notes(self, params: P2PParams, facts: tuple[Facts, ...]) -> tuple[str, ...]:
        """Say what is left out."""
        del facts
        if params.buffer == "cpu" or COPY.metric not in params.metrics:
            return ()
        return ("memory_copy is left out: it is of the processor's memory.",)

    def measure(self, rank: Rank, params: P2PParams) -> None:
        """Exchange messages on the pair; everybody else sleeps until it is done."""
        library = load(rank, "p2p", params.kernel) if params.buffer == "cpu" else None
        member = rank.number in params.pair
        comm = rank.comm.Split(int(member), params.pair.index(rank.number) if member else 0)
        if member:
            data = Data(comm, params, open_memory(params.buffer, comm))
            loops = Mpi4py(data) if library is None else Compiled(data, library)
            Exchange(rank, data, loops, params).run(self.selected(params))
        rank.barrier()

    def planned(self, params: P2PParams, ranks: int) -> Iterator[Planned]:
        """Give every metric at every size."""
        del ranks
        for definition, size in _cells(self.selected(params), params):
            yield Planned(metric=definition.metric, params={"size": size})


def _cells(definitions: Iterable[Definition], params: P2PParams) -> list[tuple[Definition, int]]:
    """Give what is to be taken: every metric at every size, but a copy of one size only."""
    return [
        (definition, size)
        for definition in definitions
        for size in ((COPIED,) if definition is COPY else params.sizes)
    ]


def _check_window(params: P2PParams) -> None:
    if params.window is None:
        return
    if params.window < 1:
        raise SpecError(f"--window is {params.window}; it must be at least 1.")
    if not {"memory_copy", "bandwidth", "bidirectional"} & set(params.metrics):
        raise SpecError("--window means nothing without the metrics bandwidth or bidirectional.")


class Messages:
    """Messages of one size between the two ranks of the pair, numbered from 0.

    Two patterns with inverse bits take turns in each place, so that a byte that did not arrive is
    seen. Round trips of small messages have up to 64 places, all of which stay in the first-level
    cache, and are checked together; everything else has one.

    Args:
        data: the memory.
        definition: of the metric that they are for.
        size: of each in bytes.

    """

    def __init__(self, data: Data, definition: Definition, size: int) -> None:
        """Cut the memory into places, a power of two of them."""
        fitting = min(64, 1 << max(0, (RING // size).bit_length() - 1))
        self.places = fitting if definition is LATENCY else 1
        self.size = size
        self.number = 0
        self.patterns = data.patterns[0][:size], data.patterns[1][:size]
        self._incoming = [data.incoming[k * size : (k + 1) * size] for k in range(self.places)]
        self._what = f"{definition.metric} of {format_size(size)}"
        self._check = data.memory.check
        data.memory.clear(data.incoming)

    def message(self, number: int) -> tuple[Piece, Piece]:
        """Give what a message sends, and the place where it arrives."""
        lap, place = divmod(number, self.places)
        return self.patterns[lap % 2], self._incoming[place]

    def check(self, number: int) -> None:
        """Compare what arrived with what was sent."""
        outgoing, incoming = self.message(number)
        self._check(incoming, outgoing, self._what)


class Data:
    """The memory of one rank of the pair, made once for all sizes; both send the same bytes.

    Args:
        comm: of the pair; its rank 0 sends first.
        params: of the benchmark.
        memory: that messages are in.

    """

    def __init__(self, comm: Comm, params: P2PParams, memory: Memory) -> None:
        """Fill it."""
        largest = max(*params.sizes, COPIED)
        self.comm = comm
        self.memory = memory
        self.first = comm.Get_rank() == 0
        self.peer = 1 - comm.Get_rank()
        self.window = params.window or WINDOW
        bytes_ = pattern(largest)
        self.patterns = memory.put(bytes_), memory.put(inverse(bytes_))
        self.incoming = memory.zeros(largest)

    def takes(self, definition: Definition) -> bool:
        """Tell whether this rank takes the values of a metric."""
        if definition is RECEIVED:
            return not self.first
        return self.first or definition.aggregation != "one rank"

    def moved(self, definition: Definition, size: int) -> int:
        """Give the bytes that move during one value."""
        if definition in (BANDWIDTH, COPY):
            return size * self.window
        if definition is BIDIRECTIONAL:
            return 2 * size * self.window
        return size


class Exchange:
    """One rank's half of all exchanges.

    Args:
        rank: who we are among all ranks.
        data: of the pair.
        loops: that do the repetitions.
        params: of the benchmark.

    """

    def __init__(self, rank: Rank, data: Data, loops: Mpi4py | Compiled, params: P2PParams) -> None:
        """Keep them."""
        self.rank = rank
        self.data = data
        self.loops = loops
        self.params = params

    def run(self, definitions: tuple[Definition, ...]) -> None:
        """Take every metric at every size."""
        cells = _cells(definitions, self.params)
        for number, (definition, size) in enumerate(cells):
            what = f"{definition.metric} {format_size(size)}"

            def tell(part: float, number: int = number, what: str = what) -> None:
                self.rank.progress(number + part, len(cells), what)

            tell(0.0)
            self._series(definition, size, tell)
            tell(1.0)

    def _series(self, definition: Definition, size: int, tell: Callable[[float], None]) -> None:
        """Take one metric at one size: warm up, repeat, and stop in agreement with the peer."""
        counts = self._counts(definition, size)
        messages = Messages(self.data, definition, size)
        repeat = self.loops.prepared(definition, messages)
        moved = self.data.moved(definition, size)
        most = 1 if definition in BLOCKING else max(1, min(MOST_AT_ONCE, AT_ONCE // moved))
        values = self.rank.begin(self.loops.defined(definition), {"size": size}, size=moved)
        for done, seconds in samples(repeat, counts, most, self.data.comm, values):
            self._tell(definition, size, seconds, tell, done / counts.values)
        self.rank.end()
        self._say(definition, size, values)

    def _counts(self, definition: Definition, size: int) -> Counts:
        small = size <= LARGE
        if definition in BLOCKING:
            warm_up, values = 2, 100
        elif definition is LATENCY:
            warm_up, values = (100, 10_000) if small else (10, 1_000)
        else:
            warm_up, values = (10, 100) if small else (2, 20)
        return self.params.counts(warm_up, values)

    def _tell(
        self,
        definition: Definition,
        size: int,
        seconds: list[float],
        tell: Callable[[float], None],
        part: float,
    ) -> None:
        """Say each one-way time as it comes."""
        if definition in BLOCKING:
            for value in seconds:
                self.rank.print_line(oneway_line(self.rank.number, size, value))
            tell(part)

    def _say(self, definition: Definition, size: int, values: list[float]) -> None:
        if definition in BLOCKING or not values or not self.data.first:
            return
        middle = median(values)
        moved = self.data.moved(definition, size)
        shown = moved / middle if definition.unit == "B/s" else middle
        what = f"{definition.metric} {format_size(size)}"
        text = format_value(shown, definition.unit)
        self.rank.print_line(f"Process {self.rank.number} {what}: {text} (n={len(values)})")


class Mpi4py:
    """The timed loops in Python.

    Each metric is a function `repeat(n)` that does `n` repetitions and gives the seconds of each,
    or nothing on the rank that does not take this metric's values.

    Args:
        data: of the pair.

    """

    def __init__(self, data: Data) -> None:
        """Keep it, and what moves its messages."""
        self.data = data
        self.moves = data.memory.moves(data.comm)

    def defined(self, definition: Definition) -> Definition:
        """Give the definition under which values are recorded."""
        return self.data.memory.defined(definition)

    def prepared(self, definition: Definition, messages: Messages) -> Callable[[int], list[float]]:
        """Give the function of a metric."""
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
            found = []
            for _ in range(n):
                outgoing, incoming = messages.message(messages.number)
                ready()
                found.append(once(outgoing, incoming))
                if checks:
                    messages.check(messages.number)
                messages.number += 1
            return found if takes else []

        return repeat

    def _oneway(self, _: Messages) -> Once:
        """Send one message from the first rank to the second."""
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
        """Bounce messages off the peer; what arrives is kept until the last, and checked then."""
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
            found = [half(*messages.message(number)) for number in numbers]
            for number in numbers:
                messages.check(number)
            ready()
            half(*messages.message(numbers.stop))
            messages.number = numbers.stop + 1
            return found

        def repeat(n: int) -> list[float]:
            places = messages.places
            found = [s for i in range(0, n, places) for s in batch(min(places, n - i))]
            return found if first else []

        return repeat

    def _copy(self, messages: Messages) -> Callable[[int], list[float]]:
        """Copy on the first rank, while the second waits."""
        import numpy as np  # noqa: PLC0415 - not needed to list or plan benchmarks

        window, first, comm = range(self.data.window), self.data.first, self.data.comm

        def once(outgoing: Piece, incoming: Piece) -> float:
            start = perf_counter_ns()
            for _ in window:
                np.copyto(incoming, outgoing)
            return (perf_counter_ns() - start) / 1e9

        def repeat(n: int) -> list[float]:
            numbers = range(messages.number, messages.number + n) if first else ()
            found = [once(*messages.message(number)) for number in numbers]
            messages.number += n
            comm.Barrier()
            return found

        return repeat

    def _bandwidth(self, _: Messages) -> Once:
        """Keep a window of messages to the peer in flight."""
        ack, window, peer = bytearray(4), range(self.data.window), self.data.peer
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

    def _bidirectional(self, _: Messages) -> Once:
        """Keep a window of messages in flight in both directions at once."""
        window, peer = range(self.data.window), self.data.peer
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


class Pair(ctypes.Structure):
    """What the loops in C are told (`struct pair` of kernels/p2p.c)."""

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
        ("first", ctypes.c_int32),
    ]


class Compiled:
    """The timed loops in C, with the same functions as `Mpi4py`.

    Args:
        data: of the pair.
        library: kernels/p2p.c, compiled.

    """

    def __init__(self, data: Data, library: ctypes.CDLL) -> None:
        """Make the memory that the loops need beyond that of the messages."""
        from mpi4py import MPI  # noqa: PLC0415 - importing it starts MPI

        data.comm.Set_errhandler(MPI.ERRORS_ARE_FATAL)  # the loops look at no error
        self.data = data
        self._library = library
        self._requests = aligned(2 * data.window * MPI._sizeof(MPI.Request))  # noqa: SLF001
        self._nanoseconds = aligned(8 * MOST_AT_ONCE).view("float64")

    def defined(self, definition: Definition) -> Definition:
        """Give the definition under which values are recorded."""
        return timed_in_c(definition)

    def prepared(self, definition: Definition, messages: Messages) -> Callable[[int], list[float]]:
        """Give the function of a metric."""
        count, kind = _counted(messages.size)
        outgoing, incoming = messages.message(0)
        pair = Pair(
            comm=address(self.data.comm),
            type=address(kind),
            requests=self._requests.ctypes.data,
            pattern=tuple(bytes_.ctypes.data for bytes_ in messages.patterns),
            incoming=incoming.ctypes.data,
            nanoseconds=self._nanoseconds.ctypes.data,
            size=messages.size,
            count=count,
            window=self.data.window,
            shift=messages.places.bit_length() - 1,
            first=self.data.first,
        )
        function = self._library[definition.metric]
        function.restype, function.argtypes = ctypes.c_int64, (ctypes.POINTER(Pair), ctypes.c_int64)
        takes, nanoseconds = self.data.takes(definition), self._nanoseconds
        alive = kind, outgoing  # as long as C has their addresses

        def repeat(n: int) -> list[float]:
            wrong = function(pair, n)
            if wrong >= 0:
                messages.check(wrong)
                raise WrongDataError(f"message {wrong} arrived wrong, and is right now")
            return (nanoseconds[:n] / 1e9).tolist() if takes and alive else []

        return repeat


def _counted(size: int) -> tuple[int, Datatype]:
    """Give a message as MPI counts it: a count is an int of C."""
    from mpi4py import MPI  # noqa: PLC0415

    if size <= MOST_COUNT:
        return size, MPI.BYTE
    return 1, MPI.BYTE.Create_contiguous(size).Commit()


def oneway_line(rank: int, size: int, seconds: float) -> str:
    """Give the founding program's line; the rate is that of the unrounded time.

    Args:
        rank: that took the value.
        size: of the message in bytes.
        seconds: that it took.

    Returns:
        Such as `Process 1 transferred 100 MB in 23.1 ms (4323.8 MB/sec)`, where MB is 1e6 bytes.

    """
    mb = size / 1e6
    return (
        f"Process {rank} transferred {mb:g} MB in {seconds * 1e3:.1f} ms "
        f"({mb / seconds:.1f} MB/sec)"
    )


if __name__ == "__main__":
    main(P2P())
