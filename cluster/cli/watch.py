"""`cluster watch`: did a cluster change since its last runs, when, and what changed with it?"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.analysis.change_points import LEAST, ChangePoint, State, change_points, state
from cluster.analysis.factors import Factor, differing_factors
from cluster.analysis.link_bounds import MEMORY
from cluster.cli import GATE_HIT, flags
from cluster.cli.show import print_json, say, table
from cluster.core.model.value import Scalar, Value
from cluster.core.units import format_point, format_value
from cluster.runs import store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cluster.core.model.records import Record
    from cluster.runs.run import Run

MOST_FACTORS = 5  # that are named with a change


class WatchedChange(Value, frozen=True, kw_only=True):
    """A change of a series, and what changed with it.

    Args:
        at: when the first run after it was started.
        run: its id.
        point: how large it is.
        factors: that differ between the runs of both sides.

    """

    at: float
    run: str
    point: ChangePoint
    factors: tuple[Factor, ...]


class WatchedSeries(Value, frozen=True, kw_only=True):
    """The medians of the runs of a cluster, at one point of one definition.

    Args:
        metric: its name.
        definition: its id; a changed definition is another series.
        unit: of the medians.
        params: the point.
        runs: how many there are.
        last: the newest median.
        baseline: the median of the runs since the last change.
        state: `alarm` only if the copy in memory of the same runs did not change as well.
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


def watch(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Of the cluster whose runs these are.")
    ],
    root: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    """Show when results changed, and what changed with them.

    Example: cluster watch mpi_test
    """
    found = tuple(series(store.read(folder) for folder in store.all_of(store.root(root), name)))
    if json:
        print_json(found)
    else:
        rows = [_row(each) for each in found]
        columns = ("metric", "point", "runs", "last", "baseline", "state", "changed")
        table(columns, rows, empty=f"No series of {name} has a run that is done.")
        say(*_lines(found))
    raise typer.Exit(GATE_HIT if any(each.state == "alarm" for each in found) else 0)


def series(runs: Iterable[Run]) -> Iterator[WatchedSeries]:
    """Put the medians of runs together, point by point.

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
    controls = [[m for _, m in medians[key]] for key, s in shown.items() if s.metric == MEMORY]
    moved = any(state(values) == "alarm" for values in controls)
    for key, summary in shown.items():
        values = [median for _, median in medians[key]]
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
            baseline=sorted(since := values[changes[-1].point.at if changes else 0 :])[
                len(since) // 2
            ],
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


def _row(each: WatchedSeries) -> tuple[str, ...]:
    last = each.changes[-1] if each.changes else None
    day = time.strftime("%Y-%m-%d", time.gmtime(last.at)) if last else ""
    return (
        each.metric,
        format_point(each.params),
        str(each.runs),
        format_value(each.last, each.unit),
        format_value(each.baseline, each.unit),
        each.state,
        f"{day} {last.point.change:+.1%}" if last else "",
    )


def _lines(found: Sequence[WatchedSeries]) -> Iterator[str]:
    for each in found:
        for change in each.changes:
            low, high = change.point.ci
            what = " ".join(filter(None, (each.metric, format_point(each.params))))
            yield (
                f"{what}: {change.point.change:+.1%} (95% CI {low:+.1%} .. {high:+.1%}) from "
                f"{change.run} on"
            )
            yield from (
                f"  changed with it: {f.name}: {f.base} -> {f.other}"
                for f in change.factors[:MOST_FACTORS]
            )
    if found and max(each.runs for each in found) < LEAST:
        yield f"{LEAST} runs are needed before a change differs from noise."
