"""Print what a job prints, by default the newest.

Example: cluster logs mpi_test train -f
"""

import sys
from collections.abc import Collection
from typing import Annotated

from cluster.cli import flags
from cluster.cli.flags import option
from cluster.orchestration.cluster import attach
from cluster.orchestration.jobs.job import Job


def command(
    name: flags.ClusterName,
    job: flags.AnyJob = "",
    follow: Annotated[bool, option("-f --follow", "Follow the job until it ends.")] = False,
    host: Annotated[str, option("--host HOST", "Only the lines of this host.")] = "",
) -> None:
    cluster = attach(name)
    hosts = cluster.hosts[host].names if host else ()
    show_lines(cluster.jobs[job] if job else cluster.jobs.newest(), hosts, follow=follow)


def show_lines(job: Job, hosts: Collection[str] = (), *, follow: bool) -> None:
    """Print each line behind the name of its host; those of standard error go there."""
    for line in job.lines(follow=follow):
        if hosts and line.host not in hosts:
            continue
        stream = sys.stdout if line.stream == "stdout" else sys.stderr
        stream.write(f"{line.printed}\n")
        stream.flush()
