"""Write an anonymised export of a run into one file.

All names become pseudonyms.

Example: cluster more share latest -o run.share.json
"""

from pathlib import Path
from typing import Annotated

import click
from click.exceptions import Exit

from cluster.cli import flags
from cluster.cli.flags import option
from cluster.cli.show import print_lines, show_rows
from cluster.core.state.files import write_file
from cluster.reports.table import Column, Columns
from cluster.runs import shared_file, store
from cluster.runs.run import RAW
from cluster.runs.share import Replacement, prepare


def command(
    run: flags.Run = "latest",
    output: Annotated[Path, option("--output -o", "The file to write.")] = Path("run.share.json"),
    with_logs: Annotated[bool, option("--with-logs", "Add its logs, in which names stay.")] = False,
    yes: Annotated[bool, option("--yes -y", "Do not ask about the logs.")] = False,
    root: flags.Runs = None,
) -> None:
    export, replacements, left_out = prepare(store.find(store.root(root), run), with_logs=with_logs)
    columns: Columns[Replacement] = (
        Column("what", lambda name: name.kind),
        Column("original", lambda name: name.original),
        Column("becomes", lambda name: name.pseudonym),
    )
    show_rows(replacements, columns, empty="Nothing in it had to be replaced.")
    if left_out:
        print_lines(f"Left out, as they may hold names: {', '.join(left_out)}")
    if with_logs:
        logs = sum(part.name.startswith(f"{RAW}/") for part in export.parts)
        print_lines(
            f"The {logs} files of {RAW}/ are in it, without the secrets that were recognised.",
            "Names of hosts, users and paths stay in them: read them before others do.",
        )
        if not yes and not click.confirm(f"Write {output}?"):
            raise Exit(1)
    write_file(output, shared_file.encode(export))
    print_lines(f"Written: {output}", f"Check it anywhere: cluster more verify {output}")
