"""What the OSU Micro-Benchmarks measure."""

from __future__ import annotations

from functools import partial

from cluster.core.model.measurements import Definition

_osu = partial(
    Definition,
    benchmark="osu",
    clock="MPI_Wtime of the ranks",
    synchronisation="a barrier before each size; the iterations of a size follow one another",
    warm_up="the skipped iterations of OSU (as in osu_util.h, unless -x said otherwise)",
)
LATENCY = _osu(
    metric="latency",
    unit="s",
    better="lower",
    what="half of a round trip, one way, mean over the iterations; printed in us",
    aggregation="one rank",
)
UNNAMED_TIME = _osu(
    metric="untitled_time",
    unit="s",
    better="lower",
    what="the time of a test whose title is missing: one way, or of a whole call; printed in us",
    aggregation="one rank",
)
UNNAMED_RATE = _osu(
    metric="untitled_bandwidth",
    unit="B/s",
    better="higher",
    what="the rate of a test whose title is missing: in one direction, or in both together; "
    "printed in MB/s of 1e6 bytes",
    aggregation="all ranks",
)
COLLECTIVE = _osu(
    metric="collective_time",
    unit="s",
    better="lower",
    what="one collective call, mean over iterations and ranks; printed in us",
    aggregation="mean of ranks",
)
FASTEST = _osu(
    metric="collective_time_min",
    unit="s",
    better="lower",
    what="one collective call, mean over iterations, of the fastest rank; printed in us",
    aggregation="one rank",
)
SLOWEST = _osu(
    metric="collective_time_max",
    unit="s",
    better="lower",
    what="one collective call, mean over iterations, of the slowest rank; printed in us",
    aggregation="one rank",
)
PERCENTILE = _osu(
    metric="time_percentile",
    unit="s",
    better="lower",
    what="the percentile of the times of the iterations (option -z); printed in us",
    aggregation="mean of ranks",
)
ONE_SIDED = _osu(
    metric="one_sided_time",
    unit="s",
    better="lower",
    what="one put, get or atomic and its synchronisation, mean over iterations; printed in us",
    aggregation="one rank",
)
RATE_PERCENTILE = _osu(
    metric="bandwidth_percentile",
    unit="B/s",
    better="higher",
    what="the percentile of the rates of the iterations (option -z), of which high ones are the "
    "best; printed in MB/s of 1e6 bytes",
    aggregation="one rank",
)
BANDWIDTH = _osu(
    metric="bandwidth",
    unit="B/s",
    better="higher",
    what="a window of messages one way, all bytes over the time; printed in MB/s of 1e6 bytes",
    aggregation="one rank",
    flow="one way",
    medium="network",
)
BIDIRECTIONAL = _osu(
    metric="bidirectional",
    unit="B/s",
    better="higher",
    what="windows both ways at once, bytes of both directions; printed in MB/s of 1e6 bytes",
    aggregation="one rank",
    flow="both ways",
    medium="network",
)
MULTI = _osu(
    metric="multi_bandwidth",
    unit="B/s",
    better="higher",
    what="windows of all pairs at once, one way, summed over pairs; printed in MB/s of 1e6 bytes",
    aggregation="all ranks",
    flow="one way",
    medium="network",
)
RATE = _osu(
    metric="message_rate",
    unit="messages/s",
    better="higher",
    what="messages of all pairs together per second",
    aggregation="all ranks",
)
OVERALL = _osu(
    metric="overall_time",
    unit="s",
    better="lower",
    what="a non-blocking collective and the computation beside it; printed in us",
    aggregation="mean of ranks",
)
COMPUTE = _osu(
    metric="compute_time",
    unit="s",
    better="lower",
    what="the computation beside a non-blocking collective; printed in us",
    aggregation="mean of ranks",
)
PURE = _osu(
    metric="pure_time",
    unit="s",
    better="lower",
    what="a non-blocking collective with nothing beside it; printed in us",
    aggregation="mean of ranks",
)
OVERLAP = _osu(
    metric="overlap",
    unit="%",
    better="higher",
    what="the share of a non-blocking collective that the computation hides, in percent",
    aggregation="mean of ranks",
)
INIT = _osu(
    metric="init_time",
    unit="s",
    better="lower",
    what="MPI_Init, mean over ranks; printed in ms",
    aggregation="mean of ranks",
)
