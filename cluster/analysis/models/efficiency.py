"""From throughput at 1, 2, 4 ... ranks to efficiency, with its base and its bounds.

Efficiency is computed, never typed in: throughput per rank over that of the base (T. Hoefler,
R. Belli, "Scientific benchmarking of parallel computing systems", SC15, rule 1). A figure that
somebody printed beside it is checked.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from cluster.analysis.models.step_limits import TRAINING
from cluster.analysis.statistics.compare import Launch
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Definition, Summary
from cluster.core.model.value import Value
from cluster.core.text.units import format_point

ROUNDED = 0.005  # the error of a percentage that was rounded to a whole number


class Throughput(Value, frozen=True, kw_only=True):
    """The throughput of a number of ranks together."""

    ranks: int
    rate: float  # of all ranks together, in items per second
    # the ends of its 95 % confidence interval; none if only the figure is known
    interval: tuple[float, float] | None = None
    printed: float | None = None  # the efficiency that its source claims; none if it claims none


class Series(Value, frozen=True, kw_only=True):
    """The same work on different numbers of ranks."""

    name: str
    unit: str  # of the rates, such as `images/s`
    throughputs: tuple[Throughput, ...]


class Work(Value, frozen=True, kw_only=True):
    """One step of data-parallel training: what matters for its communication."""

    batch: float
    payload: float  # bytes that all ranks reduce per step, by an allreduce
    rate: float  # that a host's network carries in each direction, in bytes per second
    ranks_per_host: int = 1  # how many ranks share it


class Efficiency(Value, frozen=True, kw_only=True):
    """The efficiency of a number of ranks."""

    ranks: int
    rate: float  # of all ranks together, in items per second
    speedup: float
    efficiency: float
    # the ends of an interval that contains the efficiency with at least 95 % confidence; none if
    # there is none
    interval: tuple[float, float] | None
    printed: float | None
    follows: bool
    # the efficiency if communication did not overlap with computation at all; none if the work is
    # not known
    least: float | None = None
    most: float | None = None


class Scaling(Value, frozen=True, kw_only=True):
    """How work scales."""

    name: str  # of the work
    unit: str  # of the rates
    base: int  # ranks of the base, the fewest that were measured
    base_rate: float  # the rate of the base, all ranks together
    rows: tuple[Efficiency, ...]  # one for each number of ranks


def scaling(series: Series, work: Work | None = None) -> Scaling:
    """Compute efficiencies (SpecError: there is no throughput, or one is not positive)."""
    throughputs = sorted(series.throughputs, key=lambda t: t.ranks)
    if not throughputs or not all(t.rate > 0 and t.ranks > 0 for t in throughputs):
        raise SpecError(f"{series.name}: there is no base, or a rate that is not positive.")
    base = throughputs[0]
    return Scaling(
        name=series.name,
        unit=series.unit,
        base=base.ranks,
        base_rate=base.rate,
        rows=tuple(_efficiency(t, base, work) for t in throughputs),
    )


def _efficiency(point: Throughput, base: Throughput, work: Work | None) -> Efficiency:
    more = point.ranks / base.ranks
    efficiency = point.rate / base.rate / more
    interval = None
    if point is not base and point.interval is not None and base.interval is not None:
        low, high = point.interval[0] / base.interval[1], point.interval[1] / base.interval[0]
        interval = low / more, high / more
    follows = point.printed is None or abs(point.printed - efficiency) <= ROUNDED + 1e-9
    least, most = bounds(work, point.ranks, base) if work else (None, None)
    return Efficiency(
        ranks=point.ranks,
        rate=point.rate,
        speedup=point.rate / base.rate,
        efficiency=efficiency,
        interval=interval,
        printed=point.printed,
        follows=follows,
        least=least,
        most=most,
    )


def bounds(work: Work, ranks: int, base: Throughput) -> tuple[float, float]:
    """Bound an efficiency by the times of computation and communication.

    A step takes between max(T_comp, T_comm) and T_comp + T_comm. T_comp is the base's step, and
    T_comm the least time of an allreduce between N hosts, 2 (N - 1) / N of the bytes over a host's
    rate (R. Thakur, R. Rabenseifner, W. Gropp, 2005, section 4.4).
    """
    computing = work.batch * base.ranks / base.rate
    communicating = exchange_seconds(work, ranks)
    return (computing / (computing + communicating), computing / max(computing, communicating))


def exchange_seconds(work: Work, ranks: int) -> float:
    """Return the least seconds of a step's exchange between hosts; 0 on one host."""
    hosts = math.ceil(ranks / work.ranks_per_host)
    return 2 * (hosts - 1) / hosts * work.payload / work.rate


def measured_series(launches: Iterable[Launch]) -> tuple[Series, ...]:
    """Return work that was measured on different numbers of ranks.

    There is a series per condition, metric, definition and point. A time counts as one operation,
    with a rate of 1 / s. For a collective, the series is the bus bandwidth of one rank times the
    number of ranks; its time and its algorithm bandwidth are left out, as they depend on n anyway.
    """
    by_series: dict[tuple[str, str, str], dict[int, list[Summary]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for launch in launches:
        spec, definitions = launch.record.spec, launch.record.definitions
        for summary in launch.summaries:
            definition = definitions.get(summary.definition)
            if definition is not None and not _counts(definition):
                continue
            ranks = summary.params.get("ranks")
            n = ranks if isinstance(ranks, int) and ranks else spec.hosts * spec.ranks_per_host
            rest = {k: v for k, v in summary.params.items() if k not in ("rank", "ranks")}
            parts = [launch.record.condition, summary.metric, format_point(rest)]
            name = ", ".join(filter(None, parts))
            unit = "1/s" if summary.better == "lower" else summary.unit
            all_ = summary
            if definition is not None and definition.rate == "bus":  # the rate of one rank
                ci = None if summary.ci is None else (summary.ci[0] * n, summary.ci[1] * n)
                all_ = msgspec.structs.replace(summary, median=summary.median * n, ci=ci)
            by_series[name, summary.definition, unit][n].append(all_)
    return tuple(
        Series(
            name=name,
            unit=unit,
            throughputs=tuple(_throughput(ranks, group) for ranks, group in sorted(groups.items())),
        )
        for (name, _, unit), groups in by_series.items()
        if len(groups) > 1
    )


def _counts(definition: Definition) -> bool:
    """Tell whether a metric is a throughput of all ranks, or can be made one."""
    if definition.benchmark == "training":  # its other metrics are parts of this one
        return definition.metric == "samples_rate"
    collective = definition.flow in ("between hosts", "between ranks") or bool(definition.factor)
    return not collective or definition.rate == "bus"


def _throughput(ranks: int, group: Sequence[Summary]) -> Throughput:
    """Take the median of several launches, and the widest of their intervals."""
    rates = [_rate(s.median, s) for s in group]
    ends = [_rate(end, s) for s in group if s.ci is not None for end in s.ci]
    interval = (min(ends), max(ends)) if ends else None
    return Throughput(ranks=ranks, rate=median(rates), interval=interval)


def _rate(value: float, summary: Summary) -> float:
    if summary.better == "higher":
        return value
    return 1 / value if value > 0 else math.inf


RATE, EXCHANGE = "samples_rate", "exchange_rate"
ASKED = ("store", "disk", "memory")  # the first of these is where a run's data were asked for


def training_scaling(launches: Sequence[Launch]) -> Scaling | None:
    """Compute how training scaled; None if it did not run on different numbers of ranks.

    The efficiencies are those with data from where they were asked for, with bounds if one rank
    alone was measured.
    """
    runs = [launch for launch in launches if launch.record.benchmark == TRAINING]
    series = {launch.name: launch for launch in measured_series(runs)}
    for data in ASKED:
        if rates := series.get(f"{RATE}, data {data}"):
            plain = scaling(rates)
            if plain.base > 1:  # its rate has an exchange, too
                return plain
            rows = tuple(_with_bounds(row, plain.base_rate, _exchange(runs, row.ranks))
                         for row in plain.rows)  # fmt: skip
            return msgspec.structs.replace(plain, rows=rows)
    return None


def _exchange(launches: Sequence[Launch], ranks: int) -> float | None:
    """Return the rate that the exchange among so many ranks alone allows."""
    rates = [
        summary.median
        for launch in launches
        if launch.record.spec.hosts * launch.record.spec.ranks_per_host == ranks
        for summary in launch.summaries
        if summary.metric == EXCHANGE
    ]
    return median(rates) if rates else None


def _with_bounds(row: Efficiency, alone: float, exchange: float | None) -> Efficiency:
    if exchange is None:
        return row if row.ranks > 1 else msgspec.structs.replace(row, least=1.0, most=1.0)
    computing = alone * row.ranks
    return msgspec.structs.replace(
        row, least=1 / (1 + computing / exchange), most=min(1.0, exchange / computing)
    )
