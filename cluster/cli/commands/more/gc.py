"""Find what was left behind; -y removes it.

Example: cluster more gc -y
"""

import sys
from typing import Annotated

from cluster.cli import flags
from cluster.cli.flags import option
from cluster.cli.show import print_json, show_rows
from cluster.core.errors import ClusterError, ProvisionError, collect_errors, raise_all
from cluster.orchestration.launch import orphans
from cluster.reports.table import Column, Columns


def command(
    yes: Annotated[bool, option("-y --yes", "Remove what is found.")] = False,
    region: flags.Regions = None,
    all_regions: Annotated[
        bool, option("--all-regions", "Look in every region of every cloud.")
    ] = False,
    json: flags.Json = False,
) -> None:
    first = orphans.search(region or (), everywhere=all_regions)
    first_orphans = first.orphans
    if not json:
        text = "Nothing was found, but see below." if first.errors else "Nothing was forgotten."
        columns: Columns[orphans.Orphan] = (
            Column("name", lambda orphan: orphan.name),
            Column("provider", lambda orphan: orphan.provider),
            Column("why", lambda orphan: orphan.why),
            Column("what", lambda o: ", ".join(f"{r.kind} {r.id}" for r in o.resources) or "-"),
        )
        empty = f"{text}\n{orphans.searched_lines(first.scopes)}"
        show_rows(first_orphans, columns, empty=empty)
    errors: list[ClusterError] = []
    for orphan in first_orphans if yes else ():
        with collect_errors(errors):
            orphans.remove(orphan)
    last = orphans.search(region or (), everywhere=all_regions) if yes else first
    remaining = last.orphans
    if json:
        print_json(remaining)
    elif yes:
        remains = "what is left is not known" if last.errors else f"{len(remaining)} left"
        sys.stdout.write(f"{len(first_orphans) - len(errors)} removed; {remains}.\n")
    elif first_orphans:
        sys.stdout.write("To remove it: cluster more gc -y\n")
    raise_all([*errors, *last.errors], orphans.FAILED)
    if yes and remaining:
        raise ProvisionError(f"{len(remaining)} are left.", remedy="Try again: cluster more gc -y")
