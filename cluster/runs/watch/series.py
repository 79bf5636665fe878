"""Changes in the results of a cluster's runs over time, and the factors that changed with them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from cluster.analysis.limits.link import MEMORY
from cluster.analysis.statistics.change_points import ChangePoint, State, look
from cluster.analysis.statistics.factors import Factor, differing_factors
from cluster.core.model.records import Record
from cluster.core.model.value import Scalar, Value
from cluster.runs.run import PAIRS, Run

HOST = "host"  # the parameter of a series that is about one host of a fleet
OF_MEDIAN = "of the fleet's median"


class WatchedChange(Value, frozen=True, kw_only=True):
    """A change in a series, and the factors that changed with it."""

    at: float  # when the first run after the change was started, in seconds since the epoch
    run: str
    point: ChangePoint
    factors: tuple[Factor, ...]


class WatchedSeries(Value, frozen=True, kw_only=True):
    """The medians of a cluster's runs, at one data point of one definition."""

    cluster: str = ""
    metric: str  # its name; `host_` and that of a test of pairs, for a host of a fleet
    definition: str
    unit: str  # of the medians; of a host, they are shares of the fleet's median in the same run
    params: dict[str, Scalar]  # of the data point; `host` if it is about one host of a fleet
    runs: int
    last: float
    at: float = 0.0  # when the newest run was started, in seconds since the epoch
    baseline: float
    state: State  # `alarm` only if the memory copies of the same runs did not change as well
    changes: tuple[WatchedChange, ...]  # the oldest first


class _Point(NamedTuple):
    """What a run says about a series: its key, its unit and parameters, and the value."""

    metric: str
    definition: str
    unit: str
    params: Mapping[str, Scalar]
    value: float

    @property
    def key(self) -> tuple[object, ...]:
        return (self.metric, self.definition, *sorted(self.params.items()))


def series(runs: Iterable[Run], cluster: str = "") -> Iterator[WatchedSeries]:
    """Collect the medians of finished runs, the oldest first, by data point and by host."""
    by_key: dict[tuple[object, ...], dict[str, list[tuple[Record, _Point]]]] = {}
    for run in runs:
        launch = run.record.launch_of or run.record.id
        for point in _points(run) if run.status == "done" else ():
            own = by_key.setdefault(point.key, defaultdict(list))
            own[launch].append((run.record, point))
    medians = [_medians(own.values()) for own in by_key.values()]
    looks = [look(values) for *_, values in medians]
    moved = any(
        look_.state == "alarm"
        for (_, point, _), look_ in zip(medians, looks, strict=True)
        if point.metric == MEMORY
    )
    for (records, point, values), (found_points, now) in zip(medians, looks, strict=True):
        changes = tuple(_changes(records, found_points))
        spared = moved and point.metric != MEMORY and HOST not in point.params
        yield WatchedSeries(
            cluster=cluster,
            metric=point.metric,
            definition=point.definition,
            unit=point.unit,
            params=dict(point.params),
            runs=len(values),
            last=values[-1],
            at=records[-1].at,
            baseline=median(values[changes[-1].point.at if changes else 0 :]),
            state="watch" if now == "alarm" and spared else now,
            changes=changes,
        )


def _points(run: Run) -> Iterator[_Point]:
    """Return the medians of a run; of tests of pairs, also the share of each host."""
    for s in run.summary():
        if s.median > 0:
            yield _Point(s.metric, s.definition, s.unit, s.params, s.median)
    if run.record.benchmark != PAIRS or not run.measurements:
        return
    from cluster.fleet.pair_measurements import host_shares, pair_tests  # noqa: PLC0415

    first = run.measurements[0]
    definition = run.record.definitions[first.definition]
    shares = host_shares(pair_tests(run.measurements), better=definition.better)
    for number, share in shares.items():
        host: dict[str, Scalar] = {HOST: run.record.machines[number].name}
        yield _Point(f"{HOST}_{first.metric}", first.definition, OF_MEDIAN, host, share)


def _medians(
    launches: Iterable[Sequence[tuple[Record, _Point]]],
) -> tuple[list[Record], _Point, list[float]]:
    """Return a median per run: of its launches, whose values resemble each other."""
    own = list(launches)
    values = [median(point.value for _, point in launch) for launch in own]
    return [launch[0][0] for launch in own], own[-1][-1][1], values


def _changes(records: Sequence[Record], points: Sequence[ChangePoint]) -> Iterator[WatchedChange]:
    ends = [0, *(point.at for point in points), len(records)]
    for point, start, end in zip(points, ends, ends[2:], strict=False):
        yield WatchedChange(
            at=records[point.at].at,
            run=records[point.at].id,
            point=point,
            factors=differing_factors(records[start : point.at], records[point.at : end]),
        )
