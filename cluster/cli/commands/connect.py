"""Connect to the newest cluster or host, or to a job.

Example: cluster connect mpi_test train 1
"""

import os
import shlex
import sys
from typing import Annotated

from cluster.cli.flags import argument, option
from cluster.core.errors import SpecError
from cluster.core.model.hosts import Machine
from cluster.core.state import journal
from cluster.orchestration.cluster import Cluster, attach


def command(
    fragment: Annotated[str, argument("FRAGMENT", "Part of a name, address or id.")] = "",
    job: Annotated[str, argument("JOB", "Name of a job.  [default: the newest benchmark]")] = "",
    host: Annotated[str, argument("HOST", "Number or name of a host of the job.")] = "",
    print_: Annotated[bool, option("--print", "Print the command instead of running it.")] = False,
) -> None:
    cluster, machine = find_cluster(fragment)
    session = ""
    if job:
        tasks = {task.host: task for task in cluster.jobs[job].record.tasks}
        names = cluster.hosts[host].names if host else tuple(tasks)
        name = next((name for name in names if name in tasks), "")
        if not name:
            raise SpecError(
                f"{job} does not run on {host}.", remedy=f"It runs on: {', '.join(tasks)}"
            )
        machine, session = cluster.hosts[name].machines[0], tasks[name].session
    command = cluster.remote.attach_command(machine, session, inside="TMUX" in os.environ)
    if print_ or not (sys.stdin.isatty() and sys.stdout.isatty()):
        sys.stdout.write(shlex.join(command) + "\n")
        return
    os.execvp(command[0], command)  # noqa: S606 - a list, and no shell


def find_cluster(fragment: str) -> tuple[Cluster, Machine | None]:
    """Find the newest cluster with a fragment in a name, address or id, if any (SpecError)."""
    for name in journal.names():
        cluster = attach(name)
        if fragment in cluster.name:
            return cluster, None
        for machine in cluster.machines:
            if any(fragment in word for word in (machine.name, machine.address, machine.id)):
                return cluster, machine
    raise SpecError(
        f"There is no cluster or host with {fragment!r} in its name, address or id."
        if fragment
        else "There are no clusters.",
        remedy="List what exists: cluster ls",
    )
