"""What limits data-parallel training: stalls by difference of runs, bounds, and a verdict.

The stalls are those of DS-Analyzer: the same steps with data resident on the device, with data in
memory, and with data as asked (J. Mohan, A. Phanishayee, A. Raniwala, V. Chidambaram,
"Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021, section 4). A timer of one run
cannot give them: what it calls waiting may be work that another thread takes the core for.
"""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Literal

import msgspec

from cluster.core import decoders
from cluster.core.model.results.measurements import Measurement
from cluster.core.model.value import Value

TRAINING = "training"  # the benchmark
Stage = Literal["compute", "fetch", "preparation", "exchange", "slow_rank"]
ONE_SIDED = 0.9  # of an interval whose lower end alone counts: 5 % are below it
ENOUGH_ROUNDS = 8  # one of them may contradict the others
NOTICED = 0.1  # of a step: a smaller stall is within what launches on a shared machine differ by
REACHED = 0.9  # of the rate of the input alone: then nothing but the input holds the steps up
SLOWER = 1.25  # times as long as the other ranks compute: a rank that all others wait for
TIMED_STEP = "step_time"  # the metric of a whole step
PART_METRICS = {
    "fetch": "fetch_wait",
    "preparation": "preparation_wait",
    "copy": "copy",
    "compute": "compute",
    "exchange": "exposed_exchange",
    "update": "update",
}
INPUT: tuple[Stage, ...] = ("fetch", "preparation")
WORK = ("copy", "compute", "update")  # what a rank does itself, whatever the others do


class StepParts(Value, frozen=True, kw_only=True):
    """The seconds of a step after its batch is there, each second in one part only."""

    copy: float = 0.0
    compute: float = 0.0
    exchange: float = 0.0
    update: float = 0.0


class Trained(Value, frozen=True, kw_only=True):
    """What was measured."""

    samples: int
    resident: tuple[float, ...]  # seconds of a step with data resident on the device, by rounds
    memory: tuple[float, ...]
    actual: tuple[float, ...]
    # seconds of a step with data resident that each rank works itself, whatever the others do: of
    # each rank, by the same rounds
    busy: tuple[tuple[float, ...], ...]
    # seconds that the last rank to compute waits for the exchange, with data resident, by the same
    # rounds: the wait of any other rank is also one for that rank
    waits: tuple[float, ...]
    # samples per second that all ranks together can fetch if they do nothing else; none if the data
    # are in memory
    fetch: float | None = None
    # samples per second that the workers of all ranks prepare if nothing is trained
    preparation: float | None = None
    # samples per second if a step were nothing but the exchange; none of one rank
    exchange: float | None = None


class Stalls(Value, frozen=True, kw_only=True):
    """Shares of a step with data as asked, between 0 and 1; 0 if chance may do as much."""

    fetch: float
    preparation: float
    exchange: float
    slow_rank: float


class TrainingVerdict(Value, frozen=True, kw_only=True):
    """What limits training, and how much of the limit it reaches."""

    stage: Stage  # that stalls the steps; `compute` if none does
    rate: float  # samples per second of all ranks
    # the stage that alone allows the fewest samples per second, `bounds` of which has the figures
    limit: Stage
    bounds: dict[Stage, float]
    stalls: Stalls
    slowest: int  # the rank that computes longest, `times_slower` than the others
    times_slower: float
    rounds: int  # that were measured; `sure` if so many can tell a stall from chance
    sure: bool
    # the share of a step by which steps that have more to do were quicker: then the rounds
    # contradict one another; 0 if that is little
    contradiction: float = 0.0

    @property
    def share(self) -> float:
        """The share of the limit that the training reaches."""
        return self.rate / self.bounds[self.limit]

    @property
    def waits_for_network(self) -> bool:
        """Whether the steps wait for the exchange between ranks."""
        return self.stage == "exchange"


class _Shape(msgspec.Struct, frozen=True):
    """The parameters of a run that its series cannot show: samples of a batch, and of a file."""

    batch: int
    shard: int


def from_measurements(measurements: Iterable[Measurement], params: bytes) -> Trained | None:
    """Return what a run of `training` measured, by rounds; None if it ended before its rounds.

    `params` are of the benchmark, as JSON. A request that was repeated counts as one of a file
    without bytes.
    """
    shape = decoders.decode(params, _Shape)
    series = {(m.metric, m.params.get("data"), m.rank): m.values for m in measurements}
    phases = [str(data) for metric, data, _ in series if metric == "samples_rate"]
    ranks = sorted({rank for metric, *_, rank in series if metric == PART_METRICS["compute"]})
    if ("bytes_read", None, 0) not in series or not ranks:
        return None
    samples, rounds = shape.batch * len(ranks), len(series["samples_rate", "resident", 0])
    parts = {
        (part, rank): series[PART_METRICS[part], "resident", rank]
        for part in (*WORK, "exchange")
        for rank in ranks
    }
    works = [zip(*(parts[part, rank] for part in WORK), strict=True) for rank in ranks]
    last = [min(waits) for waits in zip(*(parts["exchange", rank] for rank in ranks), strict=True)]

    def steps(phase: str) -> tuple[float, ...]:
        return tuple(samples / rate for rate in series["samples_rate", phase, 0])

    def probe(metric: str) -> float | None:
        values = series.get((metric, None, 0))
        return median(values) if values else None

    link, read = probe("link_rate"), series["bytes_read", None, 0][0]
    sample = read / max(1.0, series["store_requests", None, 0][0]) / shape.shard
    return Trained(
        samples=samples,
        resident=steps("resident"),
        memory=steps("memory"),
        actual=steps(phases[-1]),
        busy=tuple(_by_rounds([sum(step) for step in work], rounds) for work in works),
        waits=_by_rounds(last, rounds),
        fetch=link / sample if link and sample else None,
        preparation=probe("preparation_rate"),
        exchange=probe("exchange_rate"),
    )


def _by_rounds(values: Sequence[float], rounds: int) -> tuple[float, ...]:
    """Return the median of each round's steps."""
    steps = len(values) // rounds
    return tuple(median(values[start : start + steps]) for start in range(0, rounds * steps, steps))


def split_wait(wait: tuple[float, float], fetch: tuple[float, float]) -> tuple[float, float]:
    """Divide seconds of waiting (from, to) into those of the fetch and all others."""
    overlap = max(0.0, min(wait[1], fetch[1]) - max(wait[0], fetch[0]))
    return overlap, wait[1] - wait[0] - overlap


def stalls(training: Trained) -> Stalls:
    # The ranks are timed in steps with data resident. Those are the slower ones only by other work
    # beside them, and then a share of the others would be more than there is.
    steps = tuple(map(max, training.actual, training.resident))
    slowest = _slowest(training)
    late = [times[slowest] - _middle(times) for times in zip(*training.busy, strict=True)]
    return Stalls(
        fetch=_stall_share(training.actual, training.memory, training.actual),
        preparation=_stall_share(training.memory, training.resident, training.actual),
        exchange=_sure([wait / step for wait, step in zip(training.waits, steps, strict=True)])
        if len(training.busy) > 1  # one rank packs and unpacks its gradients, and waits for nobody
        else 0.0,
        slow_rank=_sure([more / step for more, step in zip(late, steps, strict=True)]),
    )


def _slowest(training: Trained) -> int:
    """Return the rank that computes longest, over all rounds."""
    medians = [median(rounds) for rounds in training.busy]
    return medians.index(max(medians))


def _middle(busy: Sequence[float]) -> float:
    """Return what a rank of the middle computes; of two, that is the faster one."""
    return median(busy) if len(busy) > 2 else min(busy)  # noqa: PLR2004


def _stall_share(phase: Sequence[float], rest: Sequence[float], whole: Sequence[float]) -> float:
    return _sure([(a - b) / c for a, b, c in zip(phase, rest, whole, strict=True)])


def _ranks(n: int) -> tuple[int, int] | None:
    """Return the order statistics that enclose the median of n rounds; none if they are few."""
    from cluster.analysis.statistics.distribution import median_interval_ranks  # noqa: PLC0415 - it imports NumPy

    return median_interval_ranks(n, ONE_SIDED)


def _sure(shares: Sequence[float]) -> float:
    """Return the median share of the rounds, if it is above 0 with 95 % confidence, one-sided."""
    sorted_shares = sorted(shares)
    ranks = _ranks(len(sorted_shares))
    lowest = sorted_shares[ranks[0] - 1] if ranks else sorted_shares[0]
    return median(sorted_shares) if lowest > 0 else 0.0


def bounds(training: Trained) -> dict[Stage, float]:
    """Return the samples per second of all ranks that each measured stage alone would allow."""
    rates: dict[Stage, float | None] = {
        "compute": training.samples / max(median(rounds) for rounds in training.busy),
        "fetch": training.fetch,
        "preparation": training.preparation,
        "exchange": training.exchange,
    }
    return {stage: rate for stage, rate in rates.items() if rate is not None}


def judge(training: Trained) -> TrainingVerdict:
    loss, rates = stalls(training), bounds(training)
    limit = min(rates, key=lambda stage: rates[stage])
    rate = training.samples / median(training.actual)
    held_up = limit in INPUT and rate >= REACHED * rates[limit] and _share(loss, limit) > 0
    # Loading goes on while ranks compute and exchange: where the input alone is as slow as the
    # steps, an exchange that is shorter than a batch takes costs nothing.
    stages: tuple[Stage, ...] = ("fetch", "preparation", "exchange")
    shares = {stage: _share(loss, stage) for stage in stages}
    if _times_slower(training) >= SLOWER:
        shares["slow_rank"] = loss.slow_rank
    most = max(shares, key=lambda stage: shares[stage])
    stage = limit if held_up else (most if shares[most] >= NOTICED else "compute")
    more_to_do = ((training.memory, training.actual), (training.resident, training.memory))
    gain = max(
        median((a - b) / c for a, b, c in zip(less, more, training.actual, strict=True))
        for less, more in more_to_do
    )
    return TrainingVerdict(
        stage=stage,
        rate=rate,
        limit=limit,
        bounds=rates,
        stalls=loss,
        slowest=_slowest(training),
        times_slower=_times_slower(training),
        rounds=len(training.actual),
        sure=_ranks(len(training.actual)) is not None,
        contradiction=gain if gain >= NOTICED else 0.0,
    )


def _share(loss: Stalls, stage: Stage) -> float:
    return {"fetch": loss.fetch, "preparation": loss.preparation, "exchange": loss.exchange}[stage]


def _times_slower(training: Trained) -> float:
    """Tell how many times as long as the others the slowest rank computes; 1 if it is alone."""
    slowest = _slowest(training)
    other_ranks = [rounds for rank, rounds in enumerate(training.busy) if rank != slowest]
    if not other_ranks:
        return 1.0
    rounds = zip(training.busy[slowest], zip(*other_ranks, strict=True), strict=True)
    ratios: list[float] = [seconds / median(rest) for seconds, rest in rounds]
    return median(ratios)
