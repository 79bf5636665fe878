"""Show when results changed, or measure on a timer.

Example: cluster watch mpi_test
         cluster watch add mpi_test --every 6h --bench 'p2p --metrics bandwidth'
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from click.exceptions import Exit

from cluster.cli import flags
from cluster.cli.commands._watch_add import add, remove
from cluster.cli.commands._watch_run import run
from cluster.cli.commands._watch_texts import change_text, factor_texts, series_of
from cluster.cli.flags import CommandGroup, argument, make_command
from cluster.cli.overview import GATE_HIT
from cluster.cli.show import print_json, print_lines, table
from cluster.core.units import format_point, format_value
from cluster.runs import store
from cluster.runs.watch import store as watches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import click

    from cluster.runs.watch.series import WatchedSeries

SHOW, HELP = "show", ("--help", "-h")


def show(
    names: Annotated[
        list[str] | None, argument("[NAME...]", "Clusters.  [default: all watched ones]")
    ] = None,
    root: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    """Show when results changed, and what changed with them.

    Example: cluster watch show mpi_test
    """
    where = store.root(root)
    wanted = tuple(names or watches.names(where))
    found = tuple(series for name in wanted for series in series_of(where, name))
    if json:
        print_json(found)
    else:
        _print(where, wanted, found)
    raise Exit(GATE_HIT if any(each.state == "alarm" for each in found) else 0)


def _print(where: Path, names: Sequence[str], found: Sequence[WatchedSeries]) -> None:
    several = ("cluster",) if len(names) > 1 else ()
    columns = (*several, "metric", "point", "runs", "last", "baseline", "state", "changed")
    rows = [(*([each.cluster] if several else ()), *_row(each)) for each in found]
    empty = f"No series of {', '.join(names)} has a run that is done."
    if not names:
        empty = "Nothing is watched. Type: cluster watch add NAME --every 6h --bench 'p2p'"
    table(columns, rows, empty=empty)
    print_lines(*_lines(found))
    for name in names:
        print_lines(*_attempts(where, name))


def _row(each: WatchedSeries) -> tuple[str, ...]:
    last = each.changes[-1] if each.changes else None
    return (
        each.metric,
        format_point(each.params),
        str(each.runs),
        format_value(each.last, each.unit),
        format_value(each.baseline, each.unit),
        each.state,
        f"{_day(last.at)} {last.point.change:+.1%}" if last else "",
    )


def _lines(found: Sequence[WatchedSeries]) -> Iterator[str]:
    from cluster.analysis.statistics.change_points import ALARMS, PROVED  # noqa: PLC0415 - slow: numpy

    for each in found:
        for change in each.changes:
            yield change_text(each, change)
            yield from (f"  changed with it: {text}" for text in factor_texts(change))
    needed = PROVED + min(ALARMS)
    if found and max(each.runs for each in found) < needed:
        yield f"{needed} runs are needed before a change differs from noise."


def _attempts(where: Path, name: str) -> Iterator[str]:
    """Say what became of the newest attempt of a watch, if it did not measure."""
    tried = [e for e in watches.events(where, name) if e.outcome != "told"]
    if tried and tried[-1].outcome != "measured":
        last = tried[-1]
        when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(last.at))
        yield f"{name}: the newest attempt, {when} UTC, was {_past(last.outcome)}: {last.reason}"


def _past(outcome: str) -> str:
    return "a failure" if outcome == "failed" else outcome


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(at))


class WatchGroup(CommandGroup):
    """`cluster watch NAME` means `cluster watch show NAME`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command that was left out before its arguments."""
        given = args[:1]
        own = given and (given[0] in self.commands or given[0] in HELP)
        return super().parse_args(ctx, args if own else [SHOW, *args])


command = WatchGroup(
    "watch", [make_command(f.__name__, f) for f in (add, run, remove, show)], help=__doc__
)
