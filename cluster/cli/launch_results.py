"""`cluster show`, and the results of several launches of one command, judged together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.analysis.statistics.launches import launch_notes
from cluster.cli import flags
from cluster.cli.compare import show_tables
from cluster.cli.show import (
    findings,
    notes_of,
    print_json,
    print_judgement,
    print_lines,
    relative_path,
    show_run,
)
from cluster.core import plugins
from cluster.core.model.measurements import Summary
from cluster.core.model.records import Status
from cluster.core.model.value import Value
from cluster.reports.formats import Report
from cluster.reports.tables import launches_table
from cluster.runs import shared_file, store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.analysis.verdict.judgement import Judgement
    from cluster.core.model.hardware import Hardware
    from cluster.runs.run import Run


class LaunchesAnswer(Value, frozen=True, kw_only=True):
    """What `--launches N --json` prints: `summaries` are of the medians of the launches."""

    run: str
    runs: tuple[str, ...]
    status: Status
    reason: str
    verdict: str
    answer: str
    notes: tuple[str, ...]
    summaries: tuple[Summary, ...]


def show_launches(ran: Sequence[Run], *, as_json: bool) -> Judgement:
    """Show several launches together: medians over launches, and one verdict.

    Args:
        ran: the launches of one command, the oldest first.

    """
    newest = ran[-1]
    record = newest.record
    pooled, judged = judge_launches(ran)
    hosts = len({machine.address for machine in record.machines}) or 1
    ranks = record.spec.hosts * record.spec.ranks_per_host // hosts
    notes = tuple(launch_notes(pooled, len(ran), ranks, record.environment))
    if as_json:
        print_json(
            LaunchesAnswer(
                run=str(newest.folder),
                runs=tuple(str(run.folder) for run in ran),
                status=newest.status,
                reason=record.reason,
                verdict=judged.word,
                answer=judged.line,
                notes=(*notes, *notes_of(newest, pooled)),
                summaries=pooled,
            )
        )
        return judged
    show_tables([launches_table(pooled, len(ran), notes)], "terminal")
    print_lines(*(f"Note: {note}" for note in notes_of(newest, pooled)))
    for number, run in enumerate(ran, 1):
        print_lines(f"Launch {number}: {relative_path(run.folder)} ({run.status})")
    named = findings(newest, pooled)
    if named:
        print_lines(
            f"What to look at: {named[0].name}. Details: cluster judge {newest.folder.name}"
        )
    print_judgement(judged)
    return judged


def judge_launches(
    ran: Sequence[Run], hardware: Hardware | None = None
) -> tuple[tuple[Summary, ...], Judgement]:
    """Judge the medians over the launches of one command, or one run.

    Args:
        ran: the launches, the oldest first.

    """
    from cluster.analysis.statistics.summarize import pool_launches  # noqa: PLC0415 - it imports NumPy
    from cluster.analysis.verdict import judgement  # noqa: PLC0415 - only for summaries

    launches = [run.summary() for run in ran]
    pooled, newest = pool_launches(launches), ran[-1]
    found = findings(newest, pooled)
    if newest.fleet is not None:
        return pooled, judgement.judge(pooled, newest.record, found, fleet=newest.fleet)
    return pooled, judgement.judge_launches(launches, newest.record, found, hardware)


def _run_names() -> list[str]:
    return ["latest", *(f"{f.parent.name}/{f.name}" for f in store.folders(store.root()))]


def show(
    run: Annotated[str, typer.Argument(metavar="RUN", autocompletion=_run_names)] = "latest",
    report: Annotated[
        str,
        typer.Option(
            "--format",
            help="terminal, markdown, csv, json or html.",
            autocompletion=lambda: list(plugins.names(Report)),
        ),
    ] = "terminal",
    wide: Annotated[
        bool, typer.Option("--wide", help="All columns, whatever the width of the terminal.")
    ] = False,
    root: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    """Show a run's results; RUN: folder, id, cluster or latest.

    Example: cluster show mpi_test --format markdown
    """
    plugins.load(Report, report)
    found = [store.read(folder) for folder in store.find_launches(store.root(root), run)]
    if len(found) > 1 and report == "terminal":
        show_launches(found, as_json=json)
    else:
        shared = Path(run) if shared_file.is_shared(Path(run)) else None
        show_run(found[-1], as_json=json, report=report, wide=wide, shared=shared)
