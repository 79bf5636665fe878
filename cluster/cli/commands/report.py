"""Write a page about runs: one file, for any browser.

Example: cluster report p2p -o report.html
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from click.exceptions import Exit

from cluster.cli import flags
from cluster.cli.flags import option
from cluster.cli.gates import (
    GateFlags,
    check_decidable,
    comparison_cases,
    judgement_cases,
    report_cases,
)
from cluster.cli.show import print_judgement, relative_path
from cluster.core.errors import ClusterError
from cluster.core.state import files
from cluster.core.state.files import write_file
from cluster.runs import store
from cluster.runs.run import Run

MOST_SHOWN = 100  # runs in a page: a browser on a phone opens no more


def command(
    names: flags.RunList = None,
    out: Annotated[Path, option("-o --output FILE")] = Path("report.html"),
    factor: Annotated[
        str | None, option("--by FACTOR", "Compare groups.  [default: condition]")
    ] = None,
    last: Annotated[
        int, option("--last N", "The newest runs that are shown; 0 is all.")
    ] = MOST_SHOWN,
    root: flags.Runs = None,
    *,
    gates: GateFlags,
) -> None:
    set_font_cache()
    from cluster.reports.html_page import render_page  # noqa: PLC0415
    from cluster.reports.page import answers, comparisons, report_page  # noqa: PLC0415 - NumPy
    from cluster.reports.plots import why_no_plots  # noqa: PLC0415

    read_runs = read_all(store.root(root), names or [flags.LATEST], last)
    reports = [run.as_reported(out.absolute().parent) for run in read_runs]
    results = comparisons(reports, factor)
    if no_plots := why_no_plots():
        sys.stderr.write(f"The report has no plots. {no_plots}\n")
    page = report_page(reports, results, no_plots=no_plots)
    write(out, render_page(page).encode())
    for conclusion in answers(reports):
        print_judgement(conclusion)
    if gates.has_any:
        check_decidable(gates, results)
        pairs = ((run.name, run.judgement) for run in reports)
        cases = [case for name, answer in pairs if answer for case in judgement_cases(name, answer)]
        cases += [case for comparison in results for case in comparison_cases(comparison)]
        raise Exit(report_cases(gates, cases))


def read_all(root: Path, names: Sequence[str], last: int = 0) -> list[Run]:
    """Read the `last` runs that can be read, and report the others (ClusterError: none can)."""
    folders = dict.fromkeys(folder for name in names for folder in store.all_of(root, name))
    read_runs: list[Run] = []
    if 0 < last < len(folders):
        sys.stderr.write(
            f"The newest {last} of {len(folders)} runs are shown. More of them: --last "
            f"{len(folders)}; others: name them, as cluster runs lists them.\n"
        )
        newest = set(sorted(folders, key=lambda folder: folder.name)[-last:])
        folders = {folder: None for folder in folders if folder in newest}
    for folder in folders:
        try:
            read_runs.append(store.read(folder))
        except ClusterError as error:
            if len(folders) == 1:
                raise
            sys.stderr.write(f"Left out: {error}\n")
    if not read_runs:
        raise ClusterError("None of the runs can be read.")
    return read_runs


def write(path: Path, content: bytes) -> None:
    """Write a file, and print its path (SpecError)."""
    write_file(path, content)
    stream = sys.stderr if path.is_relative_to("/dev") else sys.stdout  # it may be /dev/stdout
    stream.write(f"Written: {relative_path(path.absolute())}\n")


def set_font_cache() -> None:
    """Let matplotlib keep its list of fonts where cluster's other caches are."""
    os.environ.setdefault("MPLCONFIGDIR", str(files.cache_folder() / "matplotlib"))
