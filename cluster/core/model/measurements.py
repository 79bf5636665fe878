"""Metrics and values: definitions, measurements, summaries."""

from typing import Literal

import msgspec

from cluster.core.model.limits import Limit
from cluster.core.model.value import Scalar, Value

Aggregation = Literal["each rank", "one rank", "slowest rank", "mean of ranks", "all ranks"]
Flow = Literal["", "one way", "both ways", "between hosts", "between ranks"]
Factor = Literal["", "1", "(n-1)/n", "2(n-1)/n"]
Medium = Literal[
    "", "network", "RDMA", "TCP", "collective", "GPU to GPU", "host to GPU", "GPU memory"
]


class Definition(Value, frozen=True, kw_only=True, omit_defaults=True):
    """How a metric is measured; it travels with the values.

    A field that has a default came later, and is left out of files and of the id while it has it:
    the ids of older runs stay what they are.

    Args:
        benchmark: Benchmark that measures it.
        metric: Name of the metric.
        unit: of its summary; if that is `B/s` and the values are in `s`, they are the times in
            which `Measurement.bytes` moved.
        better: Which direction is better.
        what: What is measured, in words.
        clock: Clock that is read.
        synchronisation: How the ranks are synchronized before a value is measured.
        warm_up: What is done before the first value.
        aggregation: how the ranks' values become one series; other tools print one value for
            the `mean of ranks`, or for `all ranks` together.
        flow: which directions of a link the bytes of a value use at once. The bandwidth of the
            link bounds `one way` and `both ways`; it bounds nothing if empty, as for a latency.
            In a collective, either the ranks of a host share the data that passes its link
            (`between hosts`), or each rank needs data of its own (`between ranks`).
        kernel: What runs the timed loop, if it is not Python.
        buffer: Where messages are stored, if it is not the host's memory.
        factor: Bus bandwidth over algorithm bandwidth, of a collective of n ranks.
        rate: which of these two bandwidths it is, if its values are times of another definition.
        rate_of: Id of that definition.
        medium: what the bytes of a value pass through. It gives a bound for values of hosts of
            which only the hardware is known, such as those of an imported log.
    """

    benchmark: str
    metric: str
    unit: str
    better: Literal["lower", "higher"]
    what: str
    clock: str
    synchronisation: str
    warm_up: str
    aggregation: Aggregation
    flow: Flow = ""
    kernel: Literal["", "C"] = ""
    buffer: Literal["", "cuda"] = ""
    factor: Factor = ""
    rate: Literal["", "algorithm", "bus"] = ""
    rate_of: str = ""
    medium: Medium = ""

    @property
    def id(self) -> str:
        """A name that changes when any word of the definition changes."""
        import hashlib  # noqa: PLC0415 - rarely needed, and slow to import

        digest = hashlib.blake2s(msgspec.json.encode(self), digest_size=4).hexdigest()
        return f"{self.benchmark}.{self.metric}-{digest}"


class Measurement(Value, frozen=True, kw_only=True, gc=False):
    """All raw values of one metric, at one point of its parameters, as one rank measured them.

    Args:
        metric: Name of the metric.
        definition: Id of its definition.
        unit: Unit of the values.
        params: The point, such as `{"size": 8}` (bytes).
        rank: Rank that measured the values.
        host: Host that the rank ran on.
        values: Values in the order in which they were measured; none is ever left out.
        bytes: Bytes that moved during each value; 0 if nothing was moved.
        complete: False if the run ended before all values were measured.
    """

    metric: str
    definition: str
    unit: str
    params: dict[str, Scalar]
    rank: int
    host: str
    values: tuple[float, ...]
    bytes: int = 0
    complete: bool = True

    @property
    def key(self) -> tuple[object, ...]:
        """The key by which this measurement differs from all others of its run."""
        return (self.definition, self.rank, *sorted(self.params.items()))


class Planned(Value, frozen=True, kw_only=True):
    """A series that a run was to measure."""

    metric: str  # its name
    params: dict[str, Scalar] = {}  # the point, as far as it is known before the run


class Distribution(Value, frozen=True, kw_only=True):
    """Properties of a series beyond its median."""

    minimum: float  # of the values
    p25: float  # the first quartile
    p75: float  # the third
    maximum: float  # of the values
    # how many values are more than three quartile ranges beyond a quartile; they are counted, and
    # left in
    outliers: int
    # how much the median of the second half is above that of the first, relative to it; none if
    # there are too few values
    drift: float | None
    drifts: bool  # that is 3 % or more, and the 95 % intervals of the two medians do not overlap
    modes: tuple[float, ...]  # the values that the series clusters around, if there are several
    tail: float  # how many times slower than the median the slowest 1 % of values are, at least


class SummaryFigures(Value, frozen=True, kw_only=True):
    metric: str  # name of the metric
    unit: str  # unit of the numbers below: `s` or `B/s`
    better: Literal["lower", "higher"]  # which direction is better
    # the point; `rank` is among them where each rank has a series of its own
    params: dict[str, Scalar]
    n: int  # number of values
    median: float  # median of the values
    # ends of the median's 95 % confidence interval; None for fewer than 6 values
    ci: tuple[float, float] | None
    p5: float  # the 5th percentile
    p95: float  # the 95th percentile
    p99: float  # the 99th percentile
    # half of the interval is at most 2.5 % of the median, with 20 values or more, and they do not
    # drift
    converged: bool
    complete: bool = True  # false if the run ended before all values were measured
    # the best value that the hardware allows, if that is known: the highest rate, or the shortest
    # time
    bound: float | None = None
    # share of the bound that the median reaches; above 1 is faster than possible
    share: float | None = None
    definition: str = ""  # id of the metric's definition; empty if there is none
    shape: Distribution | None = None  # shape of the series, if the values are known


class Summary(SummaryFigures, frozen=True, kw_only=True):
    """The statistics of a series, and the limit that sets its bound.

    Args:
        limit: what sets the bound. A value above one with an assumption is not impossible.
    """

    limit: Limit | None = None


class Output(Value, frozen=True, kw_only=True):
    """What a benchmark's ranks left behind."""

    stdout: str = ""  # of the whole job
    ranks: tuple[str, ...] = ()  # the text of each rank's measurement file


class Progress(Value, frozen=True, kw_only=True):
    """How far a job is."""

    done: float  # how many steps are done, including a fraction of the current one
    total: int  # how many steps there are
    what: str  # what is being done now
