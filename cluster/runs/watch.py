"""Benchmarks that a timer repeats: what is repeated, what became of each attempt, what changed.

The first two are files in the folder of the cluster's runs, `RUNS/NAME`: `watch.json`, and
`watch.jsonl`, to which every attempt adds a line. The folder is locked while one is measured.
"""

import fcntl
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

import msgspec

from cluster.analysis.limits.link import MEMORY
from cluster.analysis.statistics.change_points import ChangePoint, State, look
from cluster.analysis.statistics.factors import Factor, differing_factors
from cluster.core import decoders
from cluster.core.errors import ClusterError, ParseError, SpecError
from cluster.core.model.results.records import Record
from cluster.core.model.value import Scalar, Value
from cluster.core.state import files
from cluster.core.state.files import make_private
from cluster.core.text.units import format_seconds
from cluster.runs.run import PAIRS, Run

WATCH, LOG = "watch.json", "watch.jsonl"
EARLY = 0.9  # of the interval: a timer may come as early as that, and finds nothing to skip
BUSY = 0.25  # of the processors of a host

Outcome = Literal["measured", "skipped", "failed", "told"]


class Watch(Value, frozen=True, kw_only=True):
    """A benchmark that a timer repeats."""

    name: str
    every: float  # seconds between two runs
    bench: tuple[str, ...]  # the words behind `cluster bench`
    at: float  # when it was added, in seconds since the epoch
    busy: float = BUSY  # the share of a host's processors in use, above which it is not measured
    prometheus: str = ""  # the file for node_exporter; empty for none
    on_change: str = ""  # the shell command for an alarm; empty for none


class WatchEvent(Value, frozen=True, kw_only=True):
    """What became of an attempt to measure."""

    at: float  # when, in seconds since the epoch
    outcome: Outcome  # `told` is an alarm that was handed to the command of the user
    reason: str = ""
    # that were measured, the oldest first; or with which the told change began
    runs: tuple[str, ...] = ()
    series: str = ""  # whose change was told


def add(root: Path, watch: Watch) -> None:
    """Write a watch; one of the same name is replaced, and its log stays (ClusterError)."""
    folder = root / watch.name
    try:
        make_private(folder)
        files.write_whole(folder / WATCH, decoders.encode_indented(watch))
    except OSError as error:
        raise _unwritable(folder, error) from error


def remove(root: Path, name: str) -> None:
    """Remove a watch; its runs and its log stay (SpecError)."""
    find(root, name)
    (root / name / WATCH).unlink(missing_ok=True)


def find(root: Path, name: str) -> Watch:
    """Read a watch (SpecError: there is none; ParseError: it is damaged)."""
    path = root / name / WATCH
    try:
        return decoders.decode(path.read_bytes(), Watch)
    except FileNotFoundError as error:
        raise SpecError(
            f"There is no watch {name!r} under {root}.",
            remedy=f"Type: cluster watch add {name} --every 6h --bench 'p2p --hosts 2'",
        ) from error
    except msgspec.DecodeError as error:
        raise ParseError(
            f"{path} cannot be read: {error}. Nothing is measured until it is written again.",
            remedy=f"Type: cluster watch add {name} --every 6h --bench 'p2p --hosts 2'",
        ) from error


def names(root: Path) -> tuple[str, ...]:
    return tuple(sorted(path.parent.name for path in root.glob(f"*/{WATCH}")))


def events(root: Path, name: str) -> tuple[WatchEvent, ...]:
    """Read what became of all attempts, in order, but for a line cut off (ParseError)."""
    path = root / name / LOG
    try:
        lines = files.complete_lines(path.read_bytes())
        return tuple(decoders.decode(line, WatchEvent) for line in lines)
    except FileNotFoundError:
        return ()
    except msgspec.DecodeError as error:
        raise ParseError(
            f"{path} cannot be read: {error}. Without it, runs stay, and the next one is due.",
            remedy=f"Move it away: mv {path} {path}.bad",
        ) from error


def note(root: Path, name: str, event: WatchEvent) -> None:
    path = root / name / LOG
    try:
        with path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # a skipped attempt writes beside the one that runs
            files.append(path, msgspec.json.encode(event) + b"\n", sync=True)
    except OSError as error:
        raise _unwritable(path, error) from error


@contextmanager
def lock(root: Path, name: str) -> Iterator[bool]:
    """Keep a second attempt from measuring at the same time; the lock ends with the process."""
    handle = os.open(root / name, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_free = True
    except BlockingIOError:
        is_free = False
    try:
        yield is_free
    finally:
        os.close(handle)


def why_not_due(watch: Watch, events: Sequence[WatchEvent], now: float) -> str:
    """Return why it is too early to measure at `now`, in epoch seconds; empty if a run is due."""
    newest = next((e.at for e in reversed(events) if e.outcome == "measured"), None)
    if newest is None or not 0 <= now - newest < EARLY * watch.every:
        return ""
    return (
        f"the newest run is {format_seconds(now - newest)} old, and one is due every "
        f"{format_seconds(watch.every)}"
    )


def in_order(folders: Sequence[Path], events: Sequence[WatchEvent]) -> list[Path]:
    """Sort runs by the log, as a clock that was set back gives new runs older names.

    Folders come sorted by name; those that are not in the log keep their places.
    """
    place = {folder.name: index for index, folder in enumerate(folders)}
    results = [event for event in events if event.outcome == "measured"]
    places = [place[run] for event in results for run in event.runs if run in place]
    pairs = zip(places, accumulate(places, max), strict=True)
    after = {name: (latest, number) for number, (name, latest) in enumerate(pairs)}
    ages = sorted(range(len(folders)), key=lambda index: after.get(index, (index, -1)))
    return [folders[index] for index in ages]


def _unwritable(path: Path, error: OSError) -> ClusterError:
    return ClusterError(
        f"The watch cannot be written: {path}: {error.strerror}.",
        means="Without its log, the next attempt would not know of this one.",
        remedy="Make room, or choose another place: --runs DIR",
    )


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
            points = by_key.setdefault(point.key, defaultdict(list))
            points[launch].append((run.record, point))
    medians = []
    for points in by_key.values():  # a median per run: of its launches, whose values are alike
        launches = list(points.values())
        values = [median(point.value for _, point in launch) for launch in launches]
        medians.append(([launch[0][0] for launch in launches], launches[-1][-1][1], values))
    looks = [look(values) for *_, values in medians]
    has_alarm = any(
        look_.state == "alarm"
        for (_, point, _), look_ in zip(medians, looks, strict=True)
        if point.metric == MEMORY
    )
    for (records, point, values), (found_points, now) in zip(medians, looks, strict=True):
        ends = [0, *(change.at for change in found_points), len(records)]
        changes = tuple(
            WatchedChange(
                at=records[change.at].at,
                run=records[change.at].id,
                point=change,
                factors=differing_factors(records[start : change.at], records[change.at : end]),
            )
            for change, start, end in zip(found_points, ends, ends[2:], strict=False)
        )
        is_spared = has_alarm and point.metric != MEMORY and HOST not in point.params
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
            state="watch" if now == "alarm" and is_spared else now,
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
