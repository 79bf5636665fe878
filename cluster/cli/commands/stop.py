"""Switch machines off; their disks stay.

Example: cluster stop mine
"""

from __future__ import annotations

import sys

from cluster.cli import flags
from cluster.orchestration.cluster import attach


def command(name: flags.ClusterName) -> None:
    attach(name).stop()
    sys.stdout.write(f"{name} is stopped. On again: cluster start {name}\n")
