"""Predicts the time of a collective operation from the times of point-to-point messages.

An algorithm is a list of rounds, each a message of some size; its time is the sum of the messages'
times by the point-to-point fit (R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective
communication operations in MPICH", 2005). A library should reach the time of the best algorithm for
the size. The time of arithmetic, and messages that share a link, are not taken into account.
"""

import math
from collections.abc import Callable, Iterable, Iterator

from msgspec import structs

from cluster.analysis.statistics.factors import Factor, differing_factors
from cluster.core.model.results.measurements import Fit, Summary
from cluster.core.model.results.records import Record
from cluster.core.model.spec import SpecOptions
from cluster.core.model.value import Value

Rounds = Callable[[int, float], Iterator[float]]

# options that do not affect what a machine is like
OTHER = {"hosts", "spot", "ttl", "max_cost", "idle"}
MACHINES = {field.name for field in structs.fields(SpecOptions)} - OTHER
SETTINGS = ("host.", "link.", "mca:", "env:")


class Prediction(Value, frozen=True, kw_only=True):
    """The measured and the predicted time of a collective operation."""

    collective: str  # its name, such as `allreduce`
    ranks: int
    size: int  # of all data, in bytes, as benchmarks of collectives count it
    algorithm: str
    predicted: float  # the time that it should take, in seconds
    measured: float  # the time that it took, in seconds

    @property
    def ratio(self) -> float:
        """How many times longer it takes than it should."""
        return self.measured / self.predicted


def _doublings(ranks: int) -> int:
    return math.ceil(math.log2(ranks))


def _ring(ranks: int, size: float) -> Iterator[float]:
    yield from [size / ranks] * (ranks - 1)


def _tree(ranks: int, size: float) -> Iterator[float]:
    yield from [size] * _doublings(ranks)


def _halving(ranks: int, size: float) -> Iterator[float]:
    yield from (size / 2 ** (k + 1) for k in range(_doublings(ranks)))


def _bruck(ranks: int, size: float) -> Iterator[float]:
    """Half of all data in each of few rounds (J. Bruck et al., 1997): for small messages."""
    yield from [size / 2] * _doublings(ranks)


def _in_sequence(first: Rounds, second: Rounds) -> Rounds:
    def rounds(ranks: int, size: float) -> Iterator[float]:
        yield from first(ranks, size)
        yield from second(ranks, size)

    return rounds


def _signal(ranks: int, size: float) -> Iterator[float]:  # noqa: ARG001 - a barrier has no data
    yield from [1.0] * _doublings(ranks)


BARRIER = "barrier"  # it has no size
ALGORITHMS: dict[str, dict[str, Rounds]] = {
    "allreduce": {
        "recursive doubling": _tree,
        "ring": _in_sequence(_ring, _ring),
        "halving and doubling": _in_sequence(_halving, _halving),
    },
    "allgather": {"recursive doubling": _halving, "ring": _ring},
    "reduce_scatter": {"recursive halving": _halving, "ring": _ring},
    "bcast": {"binomial tree": _tree, "scatter and allgather": _in_sequence(_halving, _ring)},
    "reduce": {
        "binomial tree": _tree,
        "reduce-scatter and gather": _in_sequence(_halving, _halving),
    },
    "alltoall": {"Bruck": _bruck, "pairwise": _ring},
    BARRIER: {"dissemination": _signal},
}


def predict(fit: Fit, collective: str, ranks: int, size: float) -> tuple[str, float] | None:
    """Return the fastest algorithm of a collective operation, and its time in seconds.

    `size` is of all data, in bytes: what each rank has at the end of an allgather, and before a
    reduce-scatter or an all-to-all. None if the operation is not known, or every algorithm needs
    messages of sizes outside the range of the fit.
    """
    seconds = {
        name: time
        for name in ALGORITHMS.get(collective, {})
        if (time := predicted_time(fit, collective, name, ranks, size)) is not None
    }
    if not seconds or ranks < 2:  # noqa: PLR2004 - alone, nothing is exchanged
        return None
    best = min(seconds, key=lambda name: seconds[name])
    return best, seconds[best]


def predicted_time(
    fit: Fit, collective: str, algorithm: str, ranks: int, size: float
) -> float | None:
    """Return the seconds of one of `ALGORITHMS`, for all data in bytes, as in `predict`.

    None if it needs messages of sizes outside the range of the fit.
    """
    smallest = fit.pieces[0].first / 4
    rounds = ALGORITHMS[collective][algorithm](ranks, size)
    times = [fit.seconds(max(message, smallest)) for message in rounds]
    complete = [time for time in times if time is not None]
    return sum(complete) if len(complete) == len(times) else None


class MeasuredCollective(Value, frozen=True, kw_only=True):
    """A collective operation that was measured."""

    collective: str
    ranks: int
    size: int  # of all data, in bytes
    seconds: float


def measured_collectives(
    summaries: Iterable[Summary], ranks: int
) -> tuple[MeasuredCollective, ...]:
    """Find the measured collective operations that can be predicted.

    A metric is named by its operation, as `allreduce` or `allreduce_time`; `ranks` took part, if a
    summary has no such parameter.
    """
    return tuple(
        collective for s in summaries if (collective := _measured_collective(s, ranks)) is not None
    )


def _measured_collective(summary: Summary, ranks: int) -> MeasuredCollective | None:
    collective = summary.metric.removesuffix("_time")
    size = summary.params.get("size", 0 if collective == BARRIER else None)
    n = summary.params.get("ranks", ranks)
    if collective not in ALGORITHMS or not isinstance(size, int) or not isinstance(n, int):
        return None
    if n < 2 or summary.median <= 0:  # noqa: PLR2004 - alone, nothing is exchanged
        return None
    seconds = size / summary.median if summary.unit == "B/s" else summary.median
    return MeasuredCollective(collective=collective, ranks=n, size=size, seconds=seconds)


def predictions(fit: Fit, operations: Iterable[MeasuredCollective]) -> tuple[Prediction, ...]:
    return tuple(
        Prediction(
            collective=o.collective,
            ranks=o.ranks,
            size=o.size,
            algorithm=best[0],
            predicted=best[1],
            measured=o.seconds,
        )
        for o in operations
        if (best := predict(fit, o.collective, o.ranks, o.size)) is not None
    )


def without_prediction(
    fit: Fit, operations: Iterable[MeasuredCollective]
) -> tuple[MeasuredCollective, ...]:
    """Find the operations whose messages have sizes outside the range of the fit."""
    return tuple(o for o in operations if predict(fit, o.collective, o.ranks, o.size) is None)


def differing_conditions(messages: Record, operations: Record) -> Iterator[Factor]:
    """Return the factors by which one run's messages may not predict another's operations."""
    for factor in differing_factors([messages], [operations]):
        is_condition = factor.name in MACHINES or factor.name.startswith(SETTINGS)
        if is_condition or (factor.name == "transport" and factor.other != "mpi"):
            yield factor
