"""The parameters of `p2p`, with their checks, and the definitions of its metrics."""

from collections.abc import Iterable
from functools import partial

from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Definition, define
from cluster.core.text.units import Sizes
from cluster.measure.buffers import Buffers
from cluster.measure.kernels import Choice
from cluster.measure.repetitions import Repetitions


class P2PParams(Repetitions, frozen=True, kw_only=True):
    """The parameters of `p2p`.

    Args:
        metrics: Which metrics to measure.
        sizes: 8:64MiB (powers of two) or 8,512.
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

    def check(self) -> None:
        """Refuse numbers that are too small, and flags without effect (SpecError)."""
        super().check()
        if self.window is None:
            return
        if self.window < 1:
            raise SpecError(f"--window is {self.window}; it must be at least 1.")
        if not {"bandwidth", "bidirectional"} & set(self.metrics):
            raise SpecError(
                "--window has no effect without the metrics bandwidth or bidirectional."
            )


LARGE = 8192  # bytes; above it OSU does fewer iterations
WINDOW = 64  # messages
COPIED = 1 << 16  # bytes of the least message that is held against a copy
COPIED_AT_ONCE = 1 << 22  # bytes of copies that are timed together, unless one copy has more
CLOCK = "time.perf_counter_ns of the rank that took the value (CLOCK_MONOTONIC)"
_p2p = partial(define, "p2p", clock=CLOCK)
_barrier_before = partial(
    _p2p, synchronisation="barrier of the pair before each value, outside the timed region"
)
ONEWAY, RECEIVED = _barrier_before(
    """
    oneway_time (s, each rank, one way): one blocking MPI_Send from the first rank of the pair to
        the second: the sender's value is the time until its buffer was free again, the receiver's
        the time in MPI_Recv
    oneway_bandwidth (B/s, one way): one blocking MPI_Send from the first rank of the pair to the
        second: all bytes over the second's time in MPI_Recv
    """,
    warm_up="2 messages, not timed, unless said otherwise",
)
(LATENCY,) = _p2p(
    "latency (s): half of one blocking round trip (MPI_Send and MPI_Recv on both sides)",
    synchronisation="each round trip orders the next; after at most 64 of them all received bytes "
    "are checked, then a barrier of the pair and one untimed round trip lead to the next value",
    warm_up="100 round trips up to 8192 B, 10 above, not timed, unless said otherwise",
)
BANDWIDTH, BIDIRECTIONAL = _barrier_before(
    """
    bandwidth (B/s, one way): a window of non-blocking sends of one buffer (64 unless said
        otherwise; two buffers take turns, window by window), and one 4 B acknowledgement after the
        last: all bytes of the window over the time until it came; then what arrived is checked
    bidirectional (B/s, slowest rank, both ways): both ranks post a window of non-blocking receives
        and sends (64 unless said otherwise), wait for all, and acknowledge with 4 B: the bytes of
        both directions over the time; then what arrived is checked
    """,
    warm_up="10 windows up to 8192 B, 2 above, not timed, unless said otherwise",
)
(COPY,) = _p2p(
    """
    memory_copy (B/s): copies, one after another, of 4 MiB together or of one message, from the
        buffer that the first rank sends from to the one that it receives into: all bytes over the
        time; messages between ranks of one host are copied at least once, so it bounds them
    """,
    synchronisation="the other rank waits in a barrier meanwhile",
    warm_up="2, not timed, unless said otherwise",
)
WINDOWED = (BANDWIDTH, BIDIRECTIONAL)
BLOCKING = (ONEWAY, RECEIVED)  # one message at a time; each is printed


def series_of(definitions: Iterable[Definition], params: P2PParams) -> list[tuple[Definition, int]]:
    """Return series to measure, every metric at every size; round trips of large messages last.

    On a slow link these take longest, and say least. Small messages are held against no copy.
    """
    copy_sizes = [size for size in params.sizes if size >= COPIED] or [COPIED]
    cells = [(d, size) for d in definitions for size in (copy_sizes if d is COPY else params.sizes)]
    return sorted(cells, key=lambda cell: cell[0] is LATENCY and cell[1] > LARGE)
