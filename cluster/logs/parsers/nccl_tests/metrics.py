"""What nccl-tests measures: its metrics, and the bus bandwidth factor of each collective."""

import math
from collections.abc import Iterable

from cluster.logs.parsers import define

TIME, ALGBW, AVERAGE, BUSBW = DEFINITIONS = define(
    "nccl_tests",
    """
    time (s): one collective call, mean over iterations and ranks; printed in us
    algbw (B/s): algorithm bandwidth: the size over the time; printed in GB/s of 1e9 bytes, to 0.01
    average_busbw (B/s): mean of the bus bandwidths of all sizes, as the last line of a test says
        it; in GB/s
    busbw (B/s, one way, collective): bus bandwidth: algorithm bandwidth times 2(n-1)/n
        (all_reduce), (n-1)/n (all_gather, reduce_scatter, alltoall, gather, scatter) or 1
        (broadcast, reduce, sendrecv) of n ranks: what the slowest link carries per direction;
        printed in GB/s of 1e9 bytes, to 0.01
    """,
    clock="std::chrono of each process, around all iterations and the synchronisation of streams",
    synchronisation="a barrier of all processes before the iterations of a size",
    warm_up="the warmup iters of the log's first line (5 unless said otherwise)",
    aggregation="mean of ranks",
)

ALL_REDUCE = "all_reduce"
_OPERATIONS = {
    **{name.replace("_", ""): name for name in (ALL_REDUCE, "all_gather", "reduce_scatter")},
    **{name: name for name in ("broadcast", "reduce", "alltoall", "gather", "scatter")},
    "sendrecv": "sendrecv",
}
SHARED, WHOLE = "all_gather or reduce_scatter or alltoall", "broadcast or reduce or sendrecv"
_FACTORS = (
    (ALL_REDUCE, lambda n: 2 * (n - 1) / n),
    (SHARED, lambda n: (n - 1) / n),
    (WHOLE, lambda _: 1.0),
)
_FAMILIES = {
    ALL_REDUCE: ALL_REDUCE,
    **dict.fromkeys(("all_gather", "reduce_scatter", "alltoall", "gather", "scatter"), SHARED),
    **dict.fromkeys(("broadcast", "reduce", "sendrecv"), WHOLE),
}
SLACK = 0.02  # by which a printed rate may differ from the other columns
RESOLUTION = 0.01  # GB/s, to which rates are printed
HALF_STEP = 0.51 * RESOLUTION  # a little more than half, for rounding of floats


def operation(program: str, family: str) -> str:
    """Tell the collective, such as `all_reduce`, from the program's name, such as `AllReduce`.

    If its own factor contradicts that, it is one of the `family`, the collectives which have it.
    """
    named = program.removesuffix("_mpi").removesuffix("_perf").lower()
    listed = _OPERATIONS.get(named.replace("_", ""), "")
    return listed if not family or _FAMILIES.get(listed) == family else family


def ranks_of(rates: Iterable[tuple[float, float]]) -> int:
    """Tell the number of ranks from bus bandwidth over algorithm bandwidth; 0 if several fit.

    The ratio is 2(n-1)/n or (n-1)/n; a ratio of 1 fits any number. Both rates are printed to 0.01
    GB/s, so each row allows a range of ratios.
    """
    large = [(algbw, busbw) for algbw, busbw in rates if algbw >= 100 * RESOLUTION]
    if not large:
        return 0
    low = max((busbw - HALF_STEP) / (algbw + HALF_STEP) for algbw, busbw in large)
    high = min((busbw + HALF_STEP) / (algbw - HALF_STEP) for algbw, busbw in large)
    whole = 2 if low > 1 else 1
    if low > high or low <= 0 or low <= 1 <= high or high >= whole:
        return 0
    fewest, most = whole / (whole - low), whole / (whole - high)
    return math.floor(most) if math.ceil(fewest) == math.floor(most) else 0


def family_of(algbw: float, busbw: float, ranks: int) -> str:
    """Name the collectives with the factor of two bandwidths; empty if several fit, or none."""
    if ranks < 3 or algbw < 100 * RESOLUTION:  # noqa: PLR2004 - of two, factors are the same
        return ""
    fits = (f for f, factor in _FACTORS if abs(busbw / algbw - factor(ranks)) < SLACK)
    return next(fits, "")
