"""Print what the ranks of the newest job print.

Example: cluster logs mpi_test -f
"""

from __future__ import annotations

import sys
from typing import Annotated

from cluster.cli import flags
from cluster.cli.flags import option
from cluster.orchestration.bench.listener import Listener
from cluster.orchestration.cluster import attach


class _Lines(Listener):
    """Prints every line that the ranks print."""

    def output(self, line: str) -> None:
        """Print it now."""
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def notice(self, line: str) -> None:
        """Print it now, to standard error."""
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def command(
    name: flags.ClusterName,
    follow: Annotated[bool, option("-f", "--follow", help="Follow the job until it ends.")] = False,
) -> None:
    cluster = attach(name)
    if follow:
        cluster.wait(_Lines())
    else:
        sys.stdout.write(cluster.logs())
