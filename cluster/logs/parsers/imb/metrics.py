"""What the Intel MPI Benchmarks measure."""

from __future__ import annotations

from functools import partial

from cluster.core.model.measurements import Definition

_imb = partial(
    Definition,
    benchmark="imb",
    clock="MPI_Wtime of the ranks",
    synchronisation="barriers before the repetitions of a size",
    warm_up="the warm-up of IMB, some calls of each size",
)
LATENCY = _imb(
    metric="latency",
    unit="s",
    better="lower",
    what="one message, one way: half of a round trip (PingPong), or one of two that cross "
    "(PingPing); mean over repetitions; printed in us",
    aggregation="one rank",
)
MEAN = _imb(
    metric="call_time",
    unit="s",
    better="lower",
    what="one call, mean over repetitions and ranks (t_avg); printed in us",
    aggregation="mean of ranks",
)
FASTEST = _imb(
    metric="call_time_min",
    unit="s",
    better="lower",
    what="one call, mean over repetitions, of the fastest rank (t_min); printed in us",
    aggregation="one rank",
)
SLOWEST = _imb(
    metric="call_time_max",
    unit="s",
    better="lower",
    what="one call, mean over repetitions, of the slowest rank (t_max); printed in us",
    aggregation="one rank",
)
BANDWIDTH = _imb(
    metric="bandwidth",
    unit="B/s",
    better="higher",
    what="bytes one way over the time; printed in Mbytes/sec of 2**20 or 1e6 bytes",
    aggregation="one rank",
    flow="one way",
    medium="network",
)
BOTH_WAYS = _imb(
    metric="bidirectional",
    unit="B/s",
    better="higher",
    what="bytes sent and received by a rank over the time of the slowest; printed in Mbytes/sec of "
    "2**20 or 1e6 bytes",
    aggregation="one rank",
    flow="both ways",
    medium="network",
)
PAIRS = _imb(
    metric="multi_bandwidth",
    unit="B/s",
    better="higher",
    what="bytes that all pairs send, one way, over the time of the slowest rank; printed in "
    "Mbytes/sec of 1e6 bytes",
    aggregation="all ranks",
    flow="one way",
    medium="network",
)
PAIRS_BOTH_WAYS = _imb(
    metric="multi_bidirectional",
    unit="B/s",
    better="higher",
    what="bytes that all pairs send, both ways, over the time of the slowest rank; printed in "
    "Mbytes/sec of 1e6 bytes",
    aggregation="all ranks",
    flow="both ways",
    medium="network",
)
TOTAL = _imb(
    metric="total_bandwidth",
    unit="B/s",
    better="higher",
    what="bytes over time as this test counts them, in whatever directions; printed in Mbytes/sec "
    "of 2**20 or 1e6 bytes",
    aggregation="all ranks",
)
FILES = _imb(
    metric="file_bandwidth",
    unit="B/s",
    better="higher",
    what="bytes to or from files over the time of the slowest rank (IMB-IO); printed in Mbytes/sec "
    "of 2**20 or 1e6 bytes",
    aggregation="all ranks",
)
RATE = _imb(
    metric="message_rate",
    unit="messages/s",
    better="higher",
    what="messages of all pairs together per second",
    aggregation="all ranks",
)
OVERALL = _imb(
    metric="overall_time",
    unit="s",
    better="lower",
    what="a non-blocking call and the computation beside it, of the slowest rank (t_ovrl); in us",
    aggregation="one rank",
)
PURE = _imb(
    metric="pure_time",
    unit="s",
    better="lower",
    what="a non-blocking call with nothing beside it, of the same rank (t_pure); printed in us",
    aggregation="one rank",
)
COMPUTE = _imb(
    metric="compute_time",
    unit="s",
    better="lower",
    what="the computation beside a non-blocking call, of the same rank (t_CPU); printed in us",
    aggregation="one rank",
)
OVERLAP = _imb(
    metric="overlap",
    unit="%",
    better="higher",
    what="the share of a non-blocking call that the computation hides, in percent",
    aggregation="one rank",
)
