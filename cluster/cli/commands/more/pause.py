"""Switch machines off; their disks stay.

Example: cluster more pause mine
"""

import sys

from cluster.cli import flags
from cluster.orchestration.cluster import attach


def command(name: flags.ClusterName) -> None:
    attach(name).pause()
    sys.stdout.write(f"{name} is paused. On again: cluster more resume {name}\n")
