"""Copy a file or folder to all hosts at once.

Example: cluster put mine data.bin /tmp/data.bin
"""

import sys
from pathlib import Path
from typing import Annotated

from cluster.cli import flags
from cluster.cli.flags import argument
from cluster.orchestration.cluster import attach


def command(
    name: flags.ClusterName,
    path: Annotated[Path, argument("HERE", "A file or folder here.")],
    to: Annotated[str, argument("THERE", "Its path on every host.")],
) -> None:
    cluster = attach(name)
    cluster.put(path, to)
    sys.stdout.write(f"{path} is on {len(cluster.shells())} host(s) as {to}.\n")
