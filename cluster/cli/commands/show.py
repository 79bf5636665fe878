"""Show a run's results; RUN: folder, id, cluster or latest.

Example: cluster show mpi_test --format markdown
"""

from pathlib import Path
from typing import Annotated

from cluster.cli import flags
from cluster.cli.flags import argument, option
from cluster.cli.show import show_launches, show_run
from cluster.core import plugins
from cluster.reports.formats import Report
from cluster.runs import shared_file, store


def _run_names() -> list[str]:
    return ["latest", *(f"{f.parent.name}/{f.name}" for f in store.folders(store.root()))]


def command(
    run: Annotated[str, argument("RUN", autocompletion=_run_names)] = "latest",
    report: flags.Format = "terminal",
    wide: Annotated[
        bool, option("--wide", "All columns, whatever the width of the terminal.")
    ] = False,
    root: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    plugins.load(Report, report)
    launches = [store.read(folder) for folder in store.find_launches(store.root(root), run)]
    if len(launches) > 1 and report == "terminal":
        show_launches(launches, as_json=json)
    else:
        file = Path(run) if shared_file.is_shared(Path(run)) else None
        show_run(launches[-1], as_json=json, report=report, wide=wide, file=file)
