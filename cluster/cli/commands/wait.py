"""Wait for the newest job; exits with its exit status.

Example: cluster wait mpi_test && cluster fetch mpi_test
"""

from __future__ import annotations

import sys

from click.exceptions import Exit

from cluster.cli import flags
from cluster.cli.progress.jobs import JobProgress
from cluster.orchestration.cluster import attach


def command(name: flags.ClusterName) -> None:
    cluster = attach(name)
    try:
        with JobProgress(stderr=False) as live:
            code = cluster.wait(live)
    except KeyboardInterrupt:
        sys.stderr.write(f"The job goes on. To stop it: cluster down {name}\n")
        raise
    sys.stdout.write(f"It ended with exit status {code}. Then: cluster fetch {name}\n")
    raise Exit(code)
