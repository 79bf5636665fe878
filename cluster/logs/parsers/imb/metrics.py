"""What the Intel MPI Benchmarks measure."""

from __future__ import annotations

from cluster.logs.parsers import define

(
    LATENCY,
    MEAN,
    FASTEST,
    SLOWEST,
    BANDWIDTH,
    BOTH_WAYS,
    PAIRS,
    PAIRS_BOTH_WAYS,
    TOTAL,
    FILES,
    RATE,
    OVERALL,
    PURE,
    COMPUTE,
    OVERLAP,
) = DEFINITIONS = define(
    "imb",
    """
    latency (s): one message, one way: half of a round trip (PingPong), or one of two that cross
        (PingPing); mean over repetitions; printed in us
    call_time (s, mean of ranks): one call, mean over repetitions and ranks (t_avg); printed in us
    call_time_min (s): one call, mean over repetitions, of the fastest rank (t_min); printed in us
    call_time_max (s): one call, mean over repetitions, of the slowest rank (t_max); printed in us
    bandwidth (B/s, one way, network): bytes one way over the time; printed in Mbytes/sec of 2**20
        or 1e6 bytes
    bidirectional (B/s, both ways, network): bytes sent and received by a rank over the time of the
        slowest; printed in Mbytes/sec of 2**20 or 1e6 bytes
    multi_bandwidth (B/s, all ranks, one way, network): bytes that all pairs send, one way, over the
        time of the slowest rank; printed in Mbytes/sec of 1e6 bytes
    multi_bidirectional (B/s, all ranks, both ways, network): bytes that all pairs send, both ways,
        over the time of the slowest rank; printed in Mbytes/sec of 1e6 bytes
    total_bandwidth (B/s, all ranks): bytes over time as this test counts them, in whatever
        directions; printed in Mbytes/sec of 2**20 or 1e6 bytes
    file_bandwidth (B/s, all ranks): bytes to or from files over the time of the slowest rank
        (IMB-IO); printed in Mbytes/sec of 2**20 or 1e6 bytes
    message_rate (messages/s, all ranks): messages of all pairs together per second
    overall_time (s): a non-blocking call and the computation beside it, of the slowest rank
        (t_ovrl); in us
    pure_time (s): a non-blocking call with nothing beside it, of the same rank (t_pure); printed in
        us
    compute_time (s): the computation beside a non-blocking call, of the same rank (t_CPU); printed
        in us
    overlap (%): the share of a non-blocking call that the computation hides, in percent
    """,
    clock="MPI_Wtime of the ranks",
    synchronisation="barriers before the repetitions of a size",
    warm_up="the warm-up of IMB, some calls of each size",
)
