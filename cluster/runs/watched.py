"""Changes in the results of a cluster's runs over time, and the factors that changed with them."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

from cluster.analysis.change_points import ChangePoint, State, change_points, state
from cluster.analysis.factors import Factor, differing_factors
from cluster.analysis.link_bounds import MEMORY
from cluster.core.model.value import Scalar, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cluster.core.model.records import Record
    from cluster.runs.run import Run


class WatchedChange(Value, frozen=True, kw_only=True):
    """A change in a series, and the factors that changed with it.

    Args:
        at: when the first run after the change was started, in seconds since the epoch.
        run: its id.
        point: where the series changed, and by how much.
        factors: that differ between the runs of both sides.

    """

    at: float
    run: str
    point: ChangePoint
    factors: tuple[Factor, ...]


class WatchedSeries(Value, frozen=True, kw_only=True):
    """The medians of a cluster's runs, at one data point of one definition.

    Args:
        metric: its name.
        definition: its id; a changed definition is another series.
        unit: of the medians.
        params: of the data point.
        runs: how many there are.
        last: the newest median.
        baseline: the median of the runs since the last change.
        state: `alarm` only if the memory copies of the same runs did not change as well.
        changes: the oldest first.

    """

    metric: str
    definition: str
    unit: str
    params: dict[str, Scalar]
    runs: int
    last: float
    baseline: float
    state: State
    changes: tuple[WatchedChange, ...]


def series(runs: Iterable[Run]) -> Iterator[WatchedSeries]:
    """Collect the medians of runs into one series per data point.

    Args:
        runs: the oldest first; those that are not done are left out.

    Yields:
        Each series, with its changes.

    """
    medians: dict[tuple[object, ...], list[tuple[Record, float]]] = defaultdict(list)
    shown = {}
    for run in runs:
        for summary in run.summary() if run.status == "done" else ():
            key = (summary.definition, *sorted(summary.params.items()))
            shown[key] = summary
            if summary.median > 0:
                medians[key].append((run.record, summary.median))
    controls = [
        [value for _, value in medians[key]] for key, s in shown.items() if s.metric == MEMORY
    ]
    moved = any(state(values) == "alarm" for values in controls)
    for key, summary in shown.items():
        values = [value for _, value in medians[key]]
        if not values:
            continue
        changes = tuple(_changes([record for record, _ in medians[key]], values))
        now = state(values)
        yield WatchedSeries(
            metric=summary.metric,
            definition=summary.definition,
            unit=summary.unit,
            params=summary.params,
            runs=len(values),
            last=values[-1],
            baseline=median(values[changes[-1].point.at if changes else 0 :]),
            state="watch" if now == "alarm" and moved and summary.metric != MEMORY else now,
            changes=changes,
        )


def _changes(records: Sequence[Record], values: Sequence[float]) -> Iterator[WatchedChange]:
    found = change_points(values)
    ends = [0, *(point.at for point in found), len(values)]
    for point, start, end in zip(found, ends, ends[2:], strict=False):
        yield WatchedChange(
            at=records[point.at].at,
            run=records[point.at].id,
            point=point,
            factors=differing_factors(records[start : point.at], records[point.at : end]),
        )
