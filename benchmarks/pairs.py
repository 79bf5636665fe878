"""Tests of disjoint pairs of hosts in rounds, both directions; `cluster check` judges them."""

import math
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import ClassVar, Literal

from msgspec.structs import replace

from cluster.core.errors import SpecError
from cluster.core.model.network.fleet import Fleet, PairMetric, PairTest
from cluster.core.model.results.measurements import Definition, Measurement, define
from cluster.core.model.value import Value
from cluster.fleet.pair_measurements import measurements_of
from cluster.fleet.rounds import SurveyPlan, SurveyStep, survey
from cluster.fleet.simulation import FleetSimulator
from cluster.measure.benchmark import Benchmark
from cluster.measure.main import main_without_mpi as main
from cluster.measure.rank import Rank

BEGINNING = 0.05  # seconds until simulated tests begin, as on hosts of a lab
_pairs = partial(
    define,
    "pairs",
    synchronisation="tests of a round begin together, in one direction, then in the other; a "
    "sample alone",
)
_transfers = partial(_pairs, warm_up="the first fifth of the time is not counted")
(BANDWIDTH,) = _transfers(
    """
    bandwidth (B/s, one way): what one host receives from another over one TCP connection, in a
        window of time
    """,
    clock="time.perf_counter of the host that receives",
)
(LATENCY,) = _transfers(
    """
    latency (s): half of the shortest round trip of 8 bytes over one TCP connection, in a window of
        time
    """,
    clock="time.perf_counter of the host that begins",
)
(ALLREDUCE,) = _pairs(
    """
    allreduce (B/s, one way): bytes of a buffer over the time of an allreduce of two ranks, the
        median; algbw = busbw
    """,
    clock="MPI_Wtime of the slower rank",
    warm_up="two operations",
)


class PairsParams(Value, frozen=True, kw_only=True):
    """The parameters of `pairs`.

    Args:
        metric: What to measure: bandwidth or latency.
        rounds: How many; 0 until all pairs are tested, as with 10 or more on up to 17 hosts.
        groups: The group of each host (rack, leaf switch, placement group), such as 0,0,1,1.
        alone: How many pairs are also tested alone.
        confirm: Test blamed parts again, with other partners.
        pairs: Test these pairs alone and no others, such as 7-12,7-40.
        milliseconds: Of each test.
        seconds: For all tests together, the most telling first; 0 for no limit.
        skip: The numbers of hosts that are not tested, such as those on which a job runs.
        limit: Bytes per second that a pair should reach; 0 for what the link allows.
        allreduce: Bytes that two ranks of MPI sum, instead of a transfer over TCP.
    """

    metric: Literal["bandwidth", "latency"] = "bandwidth"
    rounds: int = 10
    groups: tuple[int, ...] = ()
    alone: int = 8
    confirm: bool = False
    pairs: tuple[str, ...] = ()
    milliseconds: int = 300
    seconds: float = 0.0
    skip: tuple[int, ...] = ()
    limit: float = 0.0
    allreduce: int = 0

    @property
    def plan(self) -> SurveyPlan:
        """The plan of the survey: how many rounds, which pairs, and what is confirmed."""
        return SurveyPlan(
            rounds=self.rounds,
            alone=self.alone,
            confirm=self.confirm,
            pairs=tuple(read_pair(text) for text in self.pairs),
            seconds=self.seconds,
            skip=self.skip,
        )

    def fleet(self, names: Iterable[str], nics: int = 1) -> Fleet:
        all_names = tuple(names)
        groups = self.groups or (0,) * len(all_names)
        metric: PairMetric = self.metric
        return Fleet(names=all_names, groups=groups, nics=nics, metric=metric)


def read_pair(text: str) -> tuple[int, int]:
    """Read a pair of hosts, such as `7-12` (SpecError: it is not a pair)."""
    first, _, second = text.partition("-")
    if not (first.isdecimal() and second.isdecimal()) or int(first) == int(second):
        raise SpecError(f"{text!r} is not a pair of hosts.", remedy="Such as: --pairs 7-12,7-40")
    return int(first), int(second)


class Pairs(Benchmark[PairsParams]):
    """Disjoint pairs of hosts in rounds."""

    Params = PairsParams
    metrics: ClassVar[tuple[Definition, ...]] = (BANDWIDTH, LATENCY, ALLREDUCE)
    starter: ClassVar[str] = "first_host"
    compares_hosts: ClassVar[bool] = True

    def check(self, params: PairsParams, ranks: int) -> None:
        if ranks < 2:  # noqa: PLR2004 - a pair
            raise SpecError("One host has no partner.", remedy="Check two hosts or more: --hosts 4")
        if min(params.rounds, params.alone, params.seconds) < 0 or params.milliseconds < 1:
            raise SpecError("--rounds and --alone must not be negative, --milliseconds not 0.")
        if params.allreduce < 0 or (params.allreduce and params.metric != "bandwidth"):
            raise SpecError(
                "An allreduce of pairs has a size, and its metric is a bandwidth.",
                remedy="Type: cluster check NAME --metric allreduce:64MiB",
            )
        if params.groups and len(params.groups) != ranks:
            raise SpecError(
                f"--groups has {len(params.groups)} numbers, and there are {ranks} hosts.",
                remedy="Give one for each host, in their order: --groups 0,0,1,1",
            )
        for pair in params.plan.pairs:
            if max(pair) >= ranks:
                raise SpecError(f"--pairs {pair[0]}-{pair[1]}: the hosts are 0 to {ranks - 1}.")

    def selection(self, params: PairsParams) -> tuple[Definition, ...]:
        return self.find_metrics(["allreduce" if params.allreduce else params.metric])

    def model(self, params: PairsParams, fleet: FleetSimulator) -> list[Measurement]:
        (definition,) = self.selection(params)
        nics = fleet.fabric_links.fabric.nics
        hosts = params.fleet((str(n) for n in range(fleet.hosts)), nics)
        results: list[PairTest] = []
        start, duration = time.monotonic(), 0.0

        def remaining() -> float:
            seconds = max(duration, time.monotonic() - start)
            return params.seconds - seconds if params.seconds else math.inf

        def measure(step: SurveyStep) -> list[PairTest]:
            nonlocal duration
            at_once = len(step.pairs) if step.alone else 1
            duration += 2 * at_once * (params.milliseconds / 1e3 + BEGINNING)
            tests = fleet.measure(
                step.pairs, step.number, metric=params.metric, alone=step.alone, port=step.port
            )
            tests = _slower_way(tests) if params.allreduce else tests
            results.extend(tests)
            return tests

        survey(hosts, params.plan, measure, fleet.routes, remaining)
        return measurements_of(results, definition, [f"sim-{n}" for n in range(fleet.hosts)])

    def measure(self, rank: Rank, params: PairsParams) -> None:
        from cluster.measure.pairs.coordinator import coordinate  # noqa: PLC0415 - not for simulated hosts

        (definition,) = self.selection(params)
        coordinate(
            rank, params.plan, params.fleet, definition, params.milliseconds / 1e3, params.allreduce
        )


def _slower_way(tests: Sequence[PairTest]) -> list[PairTest]:
    """Return an allreduce of each pair: it sends in both directions, and the slower one decides."""
    rates: dict[frozenset[int], float] = {}
    for test in tests:
        pair = frozenset((test.source, test.target))
        rates[pair] = min(test.value or 0.0, rates.get(pair, test.value or 0.0))
    return [
        replace(test, value=rates[frozenset((test.source, test.target))]) if test.value else test
        for test in tests
    ]


if __name__ == "__main__":  # on the first host; it starts the tests on all
    main(Pairs())
