"""Copy a folder from all hosts to this machine.

Example: cluster get mine /var/log/journal logs
"""

import sys
from pathlib import Path
from typing import Annotated

from cluster.cli import flags
from cluster.cli.flags import argument
from cluster.orchestration.cluster import attach


def command(
    name: flags.ClusterName,
    path: Annotated[str, argument("THERE", "A folder on every host.")],
    to: Annotated[Path, argument("HERE", "A folder here.")],
) -> None:
    for host, folder in attach(name).get(path, to).items():
        sys.stdout.write(f"{host}: {folder}\n")
