"""Send what changed in a folder to all hosts.

What .gitignore files name is left out, as are caches and Python environments.
Example: cluster more sync mine . adder
"""

from pathlib import Path
from typing import Annotated

from cluster.cli import flags
from cluster.cli.flags import argument, option
from cluster.cli.show import print_json, print_lines
from cluster.orchestration.cluster import attach


def command(
    name: flags.ClusterName,
    source: Annotated[Path, argument("HERE", "A folder here.")],
    target: Annotated[
        str, argument("THERE", "The folder on every host, the same name by default.")
    ] = "",
    *,
    hosts: Annotated[
        str, option("--on HOSTS", "0, 1:, 0,2, a name or group.  [default: all]")
    ] = "",
    delete: Annotated[
        bool, option("--delete", "Remove there what is not here, but nothing ignored.")
    ] = False,
    root: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    cluster = attach(name)
    group = cluster.hosts[hosts] if hosts else None
    report = cluster.sync(source, target, hosts=group, delete=delete, runs=root)
    if json:
        print_json(report)
    else:
        print_lines(str(report))
