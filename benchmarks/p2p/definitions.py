"""The definitions of the metrics of `p2p`."""

from collections.abc import Iterable
from functools import partial

from cluster.benchmarks.p2p.params import P2PParams
from cluster.core.definitions import define
from cluster.core.model.measurements import Definition

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
    copied = [size for size in params.sizes if size >= COPIED] or [COPIED]
    cells = [(d, size) for d in definitions for size in (copied if d is COPY else params.sizes)]
    return sorted(cells, key=lambda cell: cell[0] is LATENCY and cell[1] > LARGE)
