"""What the OSU Micro-Benchmarks measure."""

from __future__ import annotations

from functools import partial

from cluster.logs.parsers import define

_osu = partial(
    define,
    "osu",
    clock="MPI_Wtime of the ranks",
    synchronisation="a barrier before each size; the iterations of a size follow one another",
    warm_up="the skipped iterations of OSU (as in osu_util.h, unless -x said otherwise)",
)
TIMES = LATENCY, PERCENTILE, ONE_SIDED, INIT, UNNAMED_TIME = _osu(
    """
    latency (s): half of a round trip, one way, mean over the iterations; printed in us
    time_percentile (s, mean of ranks): the percentile of the times of the iterations (option -z);
        printed in us
    one_sided_time (s): one put, get or atomic and its synchronisation, mean over iterations;
        printed in us
    init_time (s, mean of ranks): MPI_Init, mean over ranks; printed in ms
    untitled_time (s): the time of a test whose title is missing: one way, or of a whole call;
        printed in us
    """
)
COLLECTIVES = COLLECTIVE, FASTEST, SLOWEST, OVERALL, COMPUTE, PURE, OVERLAP = _osu(
    """
    collective_time (s, mean of ranks): one collective call, mean over iterations and ranks; printed
        in us
    collective_time_min (s): one collective call, mean over iterations, of the fastest rank; printed
        in us
    collective_time_max (s): one collective call, mean over iterations, of the slowest rank; printed
        in us
    overall_time (s, mean of ranks): a non-blocking collective and the computation beside it;
        printed in us
    compute_time (s, mean of ranks): the computation beside a non-blocking collective; printed in us
    pure_time (s, mean of ranks): a non-blocking collective with nothing beside it; printed in us
    overlap (%, mean of ranks): the share of a non-blocking collective that the computation hides,
        in percent
    """
)
RATES = BANDWIDTH, BIDIRECTIONAL, MULTI, RATE, RATE_PERCENTILE, UNNAMED_RATE = _osu(
    """
    bandwidth (B/s, one way, network): a window of messages one way, all bytes over the time;
        printed in MB/s of 1e6 bytes
    bidirectional (B/s, both ways, network): windows both ways at once, bytes of both directions;
        printed in MB/s of 1e6 bytes
    multi_bandwidth (B/s, all ranks, one way, network): windows of all pairs at once, one way,
        summed over pairs; printed in MB/s of 1e6 bytes
    message_rate (messages/s, all ranks): messages of all pairs together per second
    bandwidth_percentile (B/s): the percentile of the rates of the iterations (option -z), of which
        high ones are the best; printed in MB/s of 1e6 bytes
    untitled_bandwidth (B/s, all ranks): the rate of a test whose title is missing: in one
        direction, or in both together; printed in MB/s of 1e6 bytes
    """
)
DEFINITIONS = (*TIMES, *COLLECTIVES, *RATES)
