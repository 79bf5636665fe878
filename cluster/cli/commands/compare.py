"""Compare runs: what differs, and a verdict per data point.

With --by, a cluster means all of its runs, otherwise its newest. With --again, a run is
measured once more, and the two are compared; it takes the flags of machines of `cluster bench`.

Example: cluster compare --by condition p2p
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import click
from click.core import ParameterSource
from click.exceptions import Exit

from cluster.analysis.statistics.compare import THRESHOLD, Side, compare, group_by
from cluster.cli import flags
from cluster.cli.commands._again import MACHINES, measure_again
from cluster.cli.flags import argument, option
from cluster.cli.gates import GateFlags, check_decidable, report_cases
from cluster.cli.repeat import BenchOptions
from cluster.cli.show import check_format, relative_path, show_tables
from cluster.core.errors import SpecError
from cluster.reports.ci import comparison_cases
from cluster.reports.tables import comparison_tables
from cluster.reports.words.comparison import with_words
from cluster.runs import store
from cluster.runs.nccl_logs import launch_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cluster.analysis.statistics.compare import Comparison

AGAIN = "again"  # the name of a cluster on which a run is repeated, unless one is given


def command(
    named: Annotated[
        list[str] | None,
        argument(
            "RUN",
            "Two; each may be several launches: A1,A2,A3. With --again one, and a name for the "
            "new cluster.",
        ),
    ] = None,
    by: Annotated[
        str | None, option("--by FACTOR", "Group the named runs by it: placement, condition ...")
    ] = None,
    threshold: flags.Threshold = THRESHOLD * 100,
    report: flags.Format = "terminal",
    again: Annotated[
        bool,
        option("--again", "Measure RUN, which may be a shared file, again: on other hosts."),
    ] = False,
    *,
    gates: GateFlags,
    machines: Annotated[dict[str, Any], MACHINES],
    options: Annotated[BenchOptions, flags.group(BenchOptions, "runs keep timeout yes json")],
) -> None:
    check_format(report)
    named = named or [flags.LATEST]
    if again:
        run, name, *rest = *named, *([AGAIN] if len(named) == 1 else [])
        if rest:
            raise SpecError(
                f"{len(named)} words were given with --again; it takes a run, and a new name.",
                remedy=f"Type: cluster compare {run} {AGAIN} --again",
            )
        comparisons = [measure_again(run, name, machines, options)]
    else:
        _refuse_machines()
        groups = _groups(store.root(options.runs), named, by)
        comparisons = [compare(groups[0], other, threshold / 100) for other in groups[1:]]
    show_comparisons(comparisons, report=report, as_json=options.json)
    check_decidable(gates, comparisons)
    status = report_cases(
        gates, [case for comparison in comparisons for case in comparison_cases(comparison)]
    )
    raise Exit(status)


def _refuse_machines() -> None:
    """Refuse flags of machines where nothing is measured."""
    source = click.get_current_context().get_parameter_source
    typed = [p for p in MACHINES.parameters if source(p.name or "") is ParameterSource.COMMANDLINE]
    if typed:
        raise SpecError(
            f"{typed[0].opts[0]} has no effect without --again.",
            remedy="Leave it out, or measure a run once more: cluster compare RUN --again",
        )


def _groups(where: Path, named: Sequence[str], by: str | None) -> Sequence[Side]:
    if by is None:
        return _two(where, named)
    folders = dict.fromkeys(f for name in named for f in store.all_of(where, name))
    return group_by([launch_of(store.read(folder)) for folder in folders], by)


def _two(where: Path, named: Sequence[str]) -> list[Side]:
    if len(named) != 2:  # noqa: PLR2004
        raise SpecError(
            f"{len(named)} run(s) were named; two are compared.",
            remedy="Type: cluster compare RUN_A RUN_B, or cluster compare --by FACTOR RUN...",
        )
    folders = [
        [folder for word in words.split(",") if word for folder in store.find_launches(where, word)]
        for words in named
    ]
    twice = [folder for folder in folders[0] if folder in folders[1]]
    if twice:
        raise SpecError(
            f"A run cannot be compared with itself: {relative_path(twice[0])} is on both sides.",
            remedy="Name two different runs; they are listed by: cluster runs",
        )
    return [_side(launch) for launch in folders]


def _side(folders: Sequence[Path]) -> Side:
    several = f" and {len(folders) - 1} more" if len(folders) > 1 else ""
    return Side(
        name="/".join(folders[0].parts[-2:]) + several,
        launches=tuple(launch_of(store.read(folder)) for folder in folders),
    )


def show_comparisons(
    comparisons: Sequence[Comparison], *, report: str = "terminal", as_json: bool
) -> None:
    """Show comparisons on standard output; `report` is `terminal` or `markdown`."""
    tables = [table for comparison in comparisons for table in comparison_tables(comparison)]
    show_tables(tables, "json" if as_json else report, list(map(with_words, comparisons)))
