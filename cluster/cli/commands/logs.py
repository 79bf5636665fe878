"""Print what a job prints, by default the newest benchmark.

Example: cluster logs mpi_test train -f
"""

from __future__ import annotations

import sys
from typing import Annotated

from cluster.cli import flags
from cluster.cli.flags import option
from cluster.orchestration.bench.listener import Listener
from cluster.orchestration.cluster import attach
from cluster.orchestration.jobs.job import Job


class _Lines(Listener):
    """Prints every line that the ranks print."""

    def output(self, line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def notice(self, line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def command(
    name: flags.ClusterName,
    job: flags.AnyJob = "",
    follow: Annotated[bool, option("-f --follow", "Follow the job until it ends.")] = False,
) -> None:
    cluster = attach(name)
    if job:
        show_lines(cluster.jobs[job], follow=follow)
    elif follow:
        cluster.wait(_Lines())
    else:
        sys.stdout.write(cluster.logs())


def show_lines(job: Job, *, follow: bool) -> None:
    """Print each line behind the name of its host; those of standard error go there."""
    for line in job.lines(follow=follow):
        stream = sys.stdout if line.stream == "stdout" else sys.stderr
        stream.write(f"{line.host}: {line.text}\n")
        stream.flush()
