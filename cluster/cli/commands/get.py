"""Copy a folder from all hosts to this machine.

Example: cluster get mine /var/log/journal logs
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cluster.cli import flags
from cluster.orchestration.cluster import attach


def command(
    name: flags.ClusterName,
    path: Annotated[str, typer.Argument(metavar="THERE", help="A folder on every host.")],
    to: Annotated[Path, typer.Argument(metavar="HERE", help="A folder here.")],
) -> None:
    for host, folder in attach(name).get(path, to).items():
        sys.stdout.write(f"{host}: {folder}\n")
