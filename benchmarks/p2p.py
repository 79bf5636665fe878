"""Two ranks exchange messages: one-way time, latency, bandwidth, bidirectional bandwidth.

Iteration and warm-up counts, and the window of 64, are those of the OSU Micro-Benchmarks 7.4
(c/util/osu_util.h), where messages above 8192 B are "large".
"""

from __future__ import annotations

from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, ClassVar

from cluster.analysis.median import ENOUGH_VALUES, is_precise
from cluster.benchmark import Benchmark, check_pair
from cluster.errors import SpecError
from cluster.model import Definition, Value
from cluster.rank import main
from cluster.units import Sizes, format_size, format_value

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from mpi4py.MPI import Comm, Request
    from numpy.typing import NDArray

    from cluster.rank import Rank

    Buffer = NDArray[np.uint8]

TAG_DATA = 100
TAG_ACK = 101
LARGE = 8192  # bytes; above it OSU does fewer iterations
PAGE = 4096  # bytes, the alignment of all buffers
CHUNK = 1 << 20  # bytes compared at a time: they stay in the cache
SEED = 20180626  # any number will do, if it is the same on all ranks
WINDOW = 64  # messages
MOST = 20_000  # values, if precision does not come earlier
RING = 1 << 14  # bytes of small messages that are kept until they are checked
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


class P2PParams(Value, frozen=True, kw_only=True):
    """The parameters of `p2p`.

    Args:
        metrics: What to take, of those above.
        sizes: Such as 8:64MiB (powers of two) or 8,65536.
        iterations: Values per size. [default: as OSU]
        warm_up: Repetitions before. [default: as OSU]
        window: Messages in flight. [default: 64]
        pair: The two ranks that exchange messages.
        until_precise: Stop when the median is known to 2.5%.
        max_iterations: Where that gives up. [default: 20000]

    """

    metrics: tuple[str, ...] = ("latency", "bandwidth")
    sizes: Sizes = Sizes.parse("8:4MiB")
    iterations: int | None = None
    warm_up: int | None = None
    window: int | None = None
    pair: tuple[int, int] = (0, 1)
    until_precise: bool = False
    max_iterations: int | None = None


class Counts(Value, frozen=True, kw_only=True):
    """How often something is done.

    Args:
        warm_up: repetitions that are not timed.
        values: repetitions that are; the most, if the end is found by precision.
        adaptive: whether it is.

    """

    warm_up: int
    values: int
    adaptive: bool


class P2P(Benchmark[P2PParams]):
    """Point-to-point messages between any two ranks."""

    Params = P2PParams
    metrics: ClassVar[tuple[Definition, ...]] = (ONEWAY, LATENCY, BANDWIDTH, BIDIRECTIONAL)

    def check(self, params: P2PParams, ranks: int) -> None:
        """Refuse unknown metrics, empty work, and ranks that do not exist."""
        self.selected(params)
        for field in ("iterations", "window", "max_iterations"):
            count = getattr(params, field)
            if count is not None and count < 1:
                flag = field.replace("_", "-")
                raise SpecError(f"--{flag} is {count}; it must be at least 1.")
        _refuse_what_has_no_effect(params)
        if params.warm_up is not None and params.warm_up < 0:
            raise SpecError(f"--warm-up is {params.warm_up}; it must be at least 0.")
        if not params.sizes:
            raise SpecError("There are no sizes.", remedy="Give some: --sizes 8:64MiB")
        check_pair(params.pair, ranks)

    def selected(self, params: P2PParams) -> tuple[Definition, ...]:
        """Give the definitions of the metrics asked for, in that order."""
        return self.named(params.metrics)

    def measure(self, rank: Rank, params: P2PParams) -> None:
        """Exchange messages on the pair; everybody else sleeps until it is done."""
        member = rank.number in params.pair
        comm = rank.comm.Split(int(member), params.pair.index(rank.number) if member else 0)
        if member:
            Exchange(rank, comm, params).run(self.selected(params))
        rank.meet()


def _refuse_what_has_no_effect(params: P2PParams) -> None:
    if params.until_precise and params.iterations is not None:
        raise SpecError(
            "--iterations fixes what --until-precise would find.",
            remedy="Leave one out, or say --max-iterations.",
        )
    if params.max_iterations is not None and not params.until_precise:
        raise SpecError("--max-iterations means nothing without --until-precise.")
    if params.window is not None and not {"bandwidth", "bidirectional"} & set(params.metrics):
        raise SpecError("--window means nothing without the metrics bandwidth or bidirectional.")


class Exchange:
    """One rank's half of all exchanges.

    Every metric is a function `once(i)` that does one repetition, timed, and gives its seconds, or
    nothing on the rank that does not take this metric's values.

    Args:
        rank: who we are among all ranks.
        comm: of the pair; its rank 0 sends first.
        params: of the benchmark.

    """

    def __init__(self, rank: Rank, comm: Comm, params: P2PParams) -> None:
        """Make the buffers, once for all sizes; both ranks send the same bytes.

        Two patterns with inverse bits take turns, so that a byte that did not arrive is seen.
        """
        self.rank = rank
        self.comm = comm
        self.params = params
        self.window = params.window or WINDOW
        self.first = comm.Get_rank() == 0
        self.peer = 1 - comm.Get_rank()
        largest = max(params.sizes)
        pattern = _pattern(largest)
        self.patterns = pattern, _inverse(pattern)
        self.incoming = _aligned(max(largest, RING))

    def run(self, definitions: tuple[Definition, ...]) -> None:
        """Take every metric at every size."""
        cells = [(definition, size) for definition in definitions for size in self.params.sizes]
        for number, (definition, size) in enumerate(cells):
            what = f"{definition.metric} {format_size(size)}"

            def tell(part: float, number: int = number, what: str = what) -> None:
                self.rank.progress(number + part, len(cells), what)

            tell(0.0)
            self._series(definition, size, tell)
            tell(1.0)

    def _series(self, definition: Definition, size: int, tell: Callable[[float], None]) -> None:
        """Take one metric at one size: warm up, repeat, and stop in agreement with the peer."""
        once, counts = self._prepared(definition, size)
        values = self.rank.begin(definition, {"size": size}, size=self._moved(definition, size))
        checkpoint = ENOUGH_VALUES
        for i in range(-counts.warm_up, counts.values):
            seconds = once(i)
            if i < 0:
                continue
            if seconds is not None:
                values.append(seconds)
            if definition is ONEWAY and seconds is not None:
                self.rank.say(oneway_line(self.rank.number, size, seconds))
                tell((i + 1) / counts.values)
            if counts.adaptive and i + 1 == checkpoint:
                if self._agree(values):
                    break
                checkpoint += max(1, checkpoint // 10)
        self.rank.end()
        self._say(definition, size, values)

    def _prepared(
        self, definition: Definition, size: int
    ) -> tuple[Callable[[int], float | None], Counts]:
        small = size <= LARGE
        self.incoming[:] = 0
        if definition is ONEWAY:
            return self._oneway(size), self._counts(2, 100)
        if definition is LATENCY:
            counts = self._counts(100, 10_000) if small else self._counts(10, 1_000)
            return self._latency(size, counts), counts
        once = self._bandwidth(size) if definition is BANDWIDTH else self._bidirectional(size)
        return once, self._counts(10, 100) if small else self._counts(2, 20)

    def _counts(self, warm_up: int, values: int) -> Counts:
        own = self.params
        if own.until_precise:
            values = own.max_iterations or MOST
        elif own.iterations is not None:
            values = own.iterations
        warm_up = warm_up if own.warm_up is None else own.warm_up
        return Counts(warm_up=warm_up, values=values, adaptive=own.until_precise)

    def _agree(self, values: list[float]) -> bool:
        """Stop when every rank that takes values has enough; outside the timed region."""
        enough = not values or is_precise(values)
        return bool(self.comm.allreduce(int(enough)) == self.comm.Get_size())

    def _oneway(self, size: int) -> Callable[[int], float | None]:
        """Send one message from the first rank to the second, and check every byte of it."""
        patterns = self.patterns[0][:size], self.patterns[1][:size]
        incoming = self.incoming[:size]

        def once(i: int) -> float:
            outgoing = patterns[i % 2]
            self.comm.Barrier()
            if self.first:
                start = perf_counter_ns()
                self.comm.Send(outgoing, self.peer, TAG_DATA)
                return (perf_counter_ns() - start) / 1e9
            start = perf_counter_ns()
            self.comm.Recv(incoming, self.peer, TAG_DATA)
            seconds = (perf_counter_ns() - start) / 1e9
            self._check(incoming, outgoing, ONEWAY, size)
            return seconds

        return once

    def _latency(self, size: int, counts: Counts) -> Callable[[int], float | None]:
        """Bounce a message off the peer; what arrives is kept for a while, and checked then."""
        send, receive, peer = self.comm.Send, self.comm.Recv, self.peer
        batch = Batch(self.patterns, self.incoming, size)

        def ping(outgoing: Buffer, incoming: Buffer) -> float:
            start = perf_counter_ns()
            send(outgoing, peer, TAG_DATA)
            receive(incoming, peer, TAG_DATA)
            return (perf_counter_ns() - start) / 2e9

        def pong(outgoing: Buffer, incoming: Buffer) -> None:
            receive(incoming, peer, TAG_DATA)
            send(outgoing, peer, TAG_DATA)

        half = ping if self.first else pong

        def once(i: int) -> float | None:
            seconds = half(*batch.next())
            if batch.is_full or i == counts.values - 1:
                for outgoing, incoming in batch.taken():
                    self._check(incoming, outgoing, LATENCY, size)
                self.comm.Barrier()
                half(*batch.next())
                batch.clear()
            return seconds

        return once

    def _bandwidth(self, size: int) -> Callable[[int], float | None]:
        """Keep a window of messages to the peer in flight; check what is there after each."""
        incoming, ack = self.incoming[:size], bytearray(4)
        patterns = self.patterns[0][:size], self.patterns[1][:size]
        isend, irecv, wait = self.comm.Isend, self.comm.Irecv, _waitall()
        window, peer = range(self.window), self.peer

        def source(i: int) -> float:
            outgoing = patterns[i % 2]
            self.comm.Barrier()
            start = perf_counter_ns()
            wait([isend(outgoing, peer, TAG_DATA) for _ in window])
            self.comm.Recv(ack, peer, TAG_ACK)
            return (perf_counter_ns() - start) / 1e9

        def sink(i: int) -> None:
            self.comm.Barrier()
            wait([irecv(incoming, peer, TAG_DATA) for _ in window])
            self.comm.Send(ack, peer, TAG_ACK)
            self._check(incoming, patterns[i % 2], BANDWIDTH, size)

        return source if self.first else sink

    def _bidirectional(self, size: int) -> Callable[[int], float | None]:
        """Keep a window of messages in flight in both directions at once."""
        incoming = self.incoming[:size]
        patterns = self.patterns[0][:size], self.patterns[1][:size]
        isend, irecv, wait = self.comm.Isend, self.comm.Irecv, _waitall()
        window, peer = range(self.window), self.peer
        ack_out, ack_in = bytearray(4), bytearray(4)

        def once(i: int) -> float:
            outgoing = patterns[i % 2]
            self.comm.Barrier()
            start = perf_counter_ns()
            receives = [irecv(incoming, peer, TAG_DATA) for _ in window]
            wait(receives + [isend(outgoing, peer, TAG_DATA) for _ in window])
            self.comm.Sendrecv(ack_out, peer, TAG_ACK, ack_in, peer, TAG_ACK)
            seconds = (perf_counter_ns() - start) / 1e9
            self._check(incoming, outgoing, BIDIRECTIONAL, size)
            return seconds

        return once

    def _moved(self, definition: Definition, size: int) -> int:
        """Give the bytes that move during one value."""
        if definition is BANDWIDTH:
            return size * self.window
        if definition is BIDIRECTIONAL:
            return 2 * size * self.window
        return size

    def _check(self, arrived: Buffer, sent: Buffer, definition: Definition, size: int) -> None:
        offset = first_difference(arrived, sent)
        if offset is not None:
            raise WrongDataError(
                f"{definition.metric} of {format_size(size)}: byte {offset} arrived as "
                f"{arrived[offset]}, but was sent as {sent[offset]}"
            )

    def _say(self, definition: Definition, size: int, values: list[float]) -> None:
        if definition is ONEWAY or not values or not self.first:
            return
        middle = median(values)
        shown = self._moved(definition, size) / middle if definition.unit == "B/s" else middle
        what = f"{definition.metric} {format_size(size)}"
        text = format_value(shown, definition.unit)
        self.rank.say(f"Process {self.rank.number} {what}: {text} (n={len(values)})")


class Batch:
    """Places for the messages that arrive between two checks.

    Small messages get up to 64 places, all of which stay in the first-level cache; a large one has
    only one place, so it is checked at once.

    Args:
        patterns: the two that take turns.
        incoming: the memory of the places.
        size: of a message in bytes.

    """

    def __init__(self, patterns: tuple[Buffer, Buffer], incoming: Buffer, size: int) -> None:
        """Cut the memory into places, a power of two of them."""
        places = min(64, 1 << max(0, (RING // size).bit_length() - 1))
        self._patterns = patterns[0][:size], patterns[1][:size]
        self._places = [incoming[k * size : (k + 1) * size] for k in range(places)]
        self._first = self._count = 0

    def next(self) -> tuple[Buffer, Buffer]:
        """Give what to send next, and the place for what arrives."""
        number, self._count = self._count, self._count + 1
        return self._message(number)

    @property
    def is_full(self) -> bool:
        """Whether the next message would take the place of one that was not checked."""
        return self._count - self._first == len(self._places)

    def taken(self) -> list[tuple[Buffer, Buffer]]:
        """Give what was sent since the last check, each with the place where it arrived."""
        return [self._message(number) for number in range(self._first, self._count)]

    def clear(self) -> None:
        """Take what is there as checked."""
        self._first = self._count

    def _message(self, number: int) -> tuple[Buffer, Buffer]:
        """Give pattern and place of a message; a place gets the other pattern each time."""
        lap, place = divmod(number, len(self._places))
        return self._patterns[lap % 2], self._places[place]


class WrongDataError(Exception):
    """A byte arrived that was not sent."""


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


def first_difference(arrived: Buffer, sent: Buffer) -> int | None:
    """Find the first byte that differs.

    Args:
        arrived: the bytes received.
        sent: as many that were expected.

    Returns:
        Its offset; none if all are equal.

    """
    import numpy as np  # noqa: PLC0415 - not needed to list or plan benchmarks

    for start in range(0, len(sent), CHUNK):
        piece, wanted = arrived[start : start + CHUNK], sent[start : start + CHUNK]
        if not np.array_equal(piece, wanted):
            return start + int(np.argmax(piece != wanted))
    return None


def _aligned(size: int) -> Buffer:
    """Give zeroed memory that begins at a page."""
    import numpy as np  # noqa: PLC0415

    raw = np.zeros(size + PAGE, np.uint8)
    start = -raw.ctypes.data % PAGE
    return raw[start : start + size]


def _pattern(size: int) -> Buffer:
    """Give bytes without a period, the same on every rank."""
    import numpy as np  # noqa: PLC0415

    pattern = _aligned(size)
    pattern[:] = np.frombuffer(np.random.default_rng(SEED).bytes(size), np.uint8)
    return pattern


def _inverse(pattern: Buffer) -> Buffer:
    """Give the same bytes with every bit turned over."""
    import numpy as np  # noqa: PLC0415

    return np.invert(pattern, out=_aligned(len(pattern)))


def _waitall() -> Callable[[list[Request]], object]:
    from mpi4py.MPI import Request  # noqa: PLC0415 - importing it starts MPI

    return Request.Waitall


if __name__ == "__main__":
    main(P2P())
