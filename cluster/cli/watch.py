"""`cluster watch`: did a cluster change since its last runs, when, and what changed with it?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.cli import flags
from cluster.cli.exit_statuses import GATE_HIT
from cluster.cli.show import print_json, print_lines, table
from cluster.core.units import format_point, format_value
from cluster.runs import store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.runs.watched import WatchedSeries

MOST_FACTORS = 5  # named with a change


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
    from cluster.runs.watched import series  # noqa: PLC0415 - slow to import: numpy

    found = tuple(series(store.read(folder) for folder in store.all_of(store.root(root), name)))
    if json:
        print_json(found)
    else:
        rows = [_row(each) for each in found]
        columns = ("metric", "point", "runs", "last", "baseline", "state", "changed")
        table(columns, rows, empty=f"No series of {name} has a run that is done.")
        print_lines(*_lines(found))
    raise typer.Exit(GATE_HIT if any(each.state == "alarm" for each in found) else 0)


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
    from cluster.analysis.change_points import LEAST  # noqa: PLC0415 - slow to import: numpy

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
