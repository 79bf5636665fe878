"""`cluster report`: runs as one page for a browser."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from cluster.cli import flags
from cluster.cli.gates import Gates, report_cases, with_gates
from cluster.cli.show import findings, judgement, print_judgement, relative_path
from cluster.core import paths
from cluster.core.errors import ClusterError, SpecError
from cluster.reports.ci import Case, comparison_cases, judgement_cases
from cluster.reports.logbook import missing_series
from cluster.runs import store
from cluster.runs.run import RAW

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.analysis.compare import Comparison
    from cluster.reports.html_page import PageLink
    from cluster.reports.page import ReportRun
    from cluster.runs.run import Run


@with_gates
def report_(
    named: Annotated[
        list[str], typer.Argument(metavar="RUN", help="A cluster means all of its runs.")
    ],
    out: Annotated[Path, typer.Option("-o", "--output", metavar="FILE")] = Path("report.html"),
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="FACTOR", help="Compare groups.  [default: condition]"),
    ] = None,
    root: flags.Runs = None,
    *,
    gates: Gates,
) -> None:
    """Write a page about runs: one file, for any browser.

    Example: cluster report p2p -o report.html
    """
    set_font_cache()
    from cluster.reports.html_page import render_page  # noqa: PLC0415
    from cluster.reports.page import FEW, comparisons, report_page  # noqa: PLC0415 - NumPy

    found = read_all(store.root(root), named)
    shown = [report_run(run, out.absolute().parent) for run in found]
    compared = comparisons(shown, by)
    page = report_page(shown, compared, no_plots=_why_no_plots())
    write(out, render_page(page).encode())
    for run in shown:
        if run.judgement is not None and len(shown) <= FEW:
            print_judgement(run.judgement)
    if gates.asked:
        raise typer.Exit(report_cases(gates, _cases(shown, compared)))


def _cases(shown: Sequence[ReportRun], compared: Sequence[Comparison]) -> list[Case]:
    judged = ((run.name, run.judgement) for run in shown)
    cases = [case for name, one in judged if one for case in judgement_cases(name, one)]
    return [*cases, *(case for one in compared for case in comparison_cases(one))]


def _why_no_plots() -> str:
    """Say why no plot can be drawn, on the page and here; the report comes all the same."""
    from cluster.reports.plots import require_matplotlib  # noqa: PLC0415

    try:
        require_matplotlib()
    except SpecError as error:
        sys.stderr.write(f"The report has no plots. {error}\n")
        return f"No plots: {error}"
    return ""


def read_all(where: Path, named: Sequence[str]) -> list[Run]:
    """Read all runs that were named; one that cannot be read is said, and left out.

    Args:
        where: all runs are.
        named: runs, or clusters that stand for all of theirs.

    Returns:
        The runs.

    Raises:
        ClusterError: none can be read.

    """
    folders = dict.fromkeys(folder for name in named for folder in store.all_of(where, name))
    found: list[Run] = []
    for folder in folders:
        try:
            found.append(store.read(folder))
        except ClusterError as error:
            if len(folders) == 1:
                raise
            sys.stderr.write(f"Left out: {error}\n")
    if not found:
        raise ClusterError("None of the runs can be read.")
    return found


def report_run(run: Run, beside: Path) -> ReportRun:
    """Give a run as a report shows it.

    Args:
        run: as read.
        beside: the folder of the report, from which links lead to the run's files.

    Returns:
        Its record, summaries, warnings and files.

    """
    from cluster.reports.page import ReportRun  # noqa: PLC0415 - it imports NumPy

    summaries = run.summary()
    return ReportRun(
        name="/".join(run.folder.parts[-2:]),
        record=run.record,
        summaries=summaries,
        findings=findings(run, summaries),
        judgement=judgement(run, summaries),
        warnings=(*run.warnings, *missing_series(run.record, run.missing)),
        links=tuple(_links(run.folder, beside)),
    )


def _links(folder: Path, beside: Path) -> Iterator[PageLink]:
    from cluster.reports.html_page import PageLink  # noqa: PLC0415

    names = (store.RECORD, store.MEASUREMENTS, RAW)
    for name in names:
        if (folder / name).exists():
            target = quote(os.path.relpath(folder / name, beside))
            yield PageLink(text=name, target=f"{target}/" if name == RAW else target)


def write(out: Path, content: bytes) -> None:
    """Write a file that was asked for, and say so.

    Args:
        out: its path.
        content: of it.

    Raises:
        SpecError: it cannot be written.

    """
    try:
        out.write_bytes(content)
    except OSError as error:
        raise SpecError(f"{out} cannot be written: {error.strerror}.") from error
    sys.stdout.write(f"Written: {relative_path(out.absolute())}\n")


def set_font_cache() -> None:
    """Let matplotlib keep its list of fonts where our other caches are."""
    os.environ.setdefault("MPLCONFIGDIR", str(paths.cache_folder() / "matplotlib"))
