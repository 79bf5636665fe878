"""Metrics and values: definitions, measurements, summaries, lines of a sweep, and draws."""

import re
from textwrap import dedent
from typing import Literal, get_args

import msgspec

from cluster.core.model.results.limits import Limit
from cluster.core.model.value import Scalar, Value

Aggregation = Literal["each rank", "one rank", "slowest rank", "mean of ranks", "all ranks"]
Better = Literal["lower", "higher"]
Flow = Literal["", "one way", "both ways", "between hosts", "between ranks"]
Factor = Literal["", "1", "(n-1)/n", "2(n-1)/n"]
Medium = Literal[
    "", "network", "RDMA", "TCP", "collective", "GPU to GPU", "host to GPU", "GPU memory"
]
WORST_ERROR = 0.25  # relative error above which a line does not describe the points
BEYOND = 4.0  # how many times beyond the measured sizes a time is predicted


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
    better: Better
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


_FIELDS = {  # of a definition, by the words that it may have
    **dict.fromkeys(get_args(Aggregation), "aggregation"),
    **dict.fromkeys(get_args(Flow), "flow"),
    **dict.fromkeys(get_args(Medium), "medium"),
    "lower": "better",
}


def define(
    benchmark: str,
    rows: str,
    *,
    clock: str,
    synchronisation: str,
    warm_up: str,
    aggregation: Aggregation = "one rank",
) -> tuple[Definition, ...]:
    """Return the definitions of a tool's metrics, of which each row says what is special.

    Args:
        rows: such as `bandwidth (B/s, one way, network): bytes over the time`, with the unit, and
            then the aggregation, flow and medium where they are not the default. Of times (s), low
            values are better, and of all else, high ones, unless the row says `lower`. What
            follows below a row, further to the right, belongs to it.
    """
    common = {"benchmark": benchmark, "clock": clock, "synchronisation": synchronisation}
    common |= {"warm_up": warm_up, "aggregation": aggregation}
    text = dedent(rows).strip().replace("\n    ", " ")
    definitions = []
    for row in text.split("\n"):
        metric, details, meaning = re.split(r" \((.*?)\): ", row, maxsplit=1)
        unit, *words = details.split(", ")
        special = {"better": "lower" if unit == "s" else "higher"}
        special |= {_FIELDS[word]: word for word in words}
        fields = {**common, **special, "metric": metric, "unit": unit, "what": meaning}
        definitions.append(msgspec.convert(fields, Definition))
    return tuple(definitions)


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
    better: Better  # which direction is better
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


class FitPoint(Value, frozen=True, kw_only=True):
    """The time that a message of one size takes."""

    size: int  # in bytes
    seconds: float  # that it takes


class Piece(Value, frozen=True, kw_only=True):
    """A line over a range of sizes."""

    first: int  # the smallest size, in bytes
    last: int  # the largest
    points: int  # how many sizes there are
    alpha: float  # the start-up time of a message, before its first byte, in seconds
    # the ends of its 95 % interval; none for fewer than 6 sizes
    alpha_ci: tuple[float, float] | None
    # the rate that large messages would reach, in bytes per second; infinite if time does not grow
    # with size
    beta: float
    beta_ci: tuple[float, float] | None  # the ends of its 95 % interval
    half: float | None  # the size at which half of `beta` is reached; none if no size reaches it
    worst: float  # the largest relative error at any size

    @property
    def misfit(self) -> str:
        """Why the line does not describe the points; empty if it does."""
        if self.alpha < 0:
            return "does not fit: a negative start-up time"
        if self.worst > WORST_ERROR:
            return f"does not fit: {self.worst:.0%} off"
        return ""

    def seconds(self, size: float) -> float:
        return self.alpha + size / self.beta


class Fit(Value, frozen=True, kw_only=True):
    """The lines that describe a sweep; `cluster.analysis.models.fit` finds them."""

    metric: str  # that was swept
    params: dict[str, Scalar]  # the parameters of the sweep, without the size
    points: tuple[FitPoint, ...]  # that were fitted, by size
    pieces: tuple[Piece, ...]  # from the smallest sizes to the largest
    of: str = ""  # the condition or run that was swept
    launches: int = 1  # how many launches the fitted medians come from

    def seconds(self, size: float) -> float | None:
        """Return the seconds of a message; none if it is four times beyond all measured ones."""
        first, last = self.pieces[0].first, self.pieces[-1].last
        if not first / BEYOND <= size <= last * BEYOND:
            return None
        nearest = min(self.pieces, key=lambda p: max(p.first / size, size / p.last, 1.0))
        return nearest.seconds(size)


class BestOfDraws(Value, frozen=True, kw_only=True):
    """What is expected of the best of several draws."""

    draws: int  # how many
    measured: float  # the mean of the best measured value, in the unit of the series
    # by how much the best draw is better than one draw, as a share: it is less than was measured,
    # as the best draw is in part that with the luckiest jobs
    gain: float
    dollars: float | None = None  # what the draws cost, if the price is known
    # of a job that is bound by this metric, after which its gain has paid for the draws beyond the
    # first; none if nothing is gained
    hours: float | None = None


class DrawnSeries(Value, frozen=True, kw_only=True):
    """A series over several draws."""

    metric: str  # its name
    params: dict[str, Scalar]  # the point
    unit: str  # of the values
    better: Better  # which direction is better
    draws: tuple[tuple[float, ...], ...]  # the medians of the jobs of each draw
    mean: float  # of all jobs
    between: float  # standard deviation of draws beyond that of jobs
    within: float  # standard deviation of jobs of one draw
    chance: float  # that draws differ as much by chance
    # whether draws differ: by chance, less than one in 20 commands would say so of any of its
    # series
    differs: bool
    best: tuple[BestOfDraws, ...]  # of 1, 2, ... draws


class DrawCost(Value, frozen=True, kw_only=True):
    """What one draw takes."""

    seconds: float  # that its machines existed
    dollars: float | None = None  # for all of them, if the price is known


class Output(Value, frozen=True, kw_only=True):
    """What a benchmark's ranks left behind."""

    stdout: str = ""  # of the whole job
    ranks: tuple[str, ...] = ()  # the text of each rank's measurement file


class Progress(Value, frozen=True, kw_only=True):
    """How far a job is."""

    done: float  # how many steps are done, including a fraction of the current one
    total: int  # how many steps there are
    what: str  # what is being done now
