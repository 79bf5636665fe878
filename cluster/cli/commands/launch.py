"""Launch a cluster, its set-up, files and jobs, as a file says.

Example: cluster launch adder.toml --dry-run
"""

import sys
from pathlib import Path
from typing import Annotated

from cluster.cli import flags
from cluster.cli.commands.ls import MOST_SHOWN, show_hosts
from cluster.cli.confirm import confirm_cost
from cluster.cli.console import console
from cluster.cli.flags import argument, option
from cluster.cli.progress import HostProgress
from cluster.cli.show import print_json, print_lines
from cluster.core.model.hosts import Machine
from cluster.core.model.jobs import NamedJob
from cluster.core.model.resources import Plan
from cluster.core.model.value import Value
from cluster.orchestration.launch.launch import plan_spec
from cluster.orchestration.launch.launch_file import launch_file, read_launch_file
from cluster.reports.words.outcomes import step_words


class DryRun(Value, frozen=True, kw_only=True):
    """What `cluster launch FILE --dry-run --json` prints."""

    name: str  # of the cluster
    plan: Plan
    steps: tuple[str, ...]  # that follow its launch


class Launched(Value, frozen=True, kw_only=True):
    """What `cluster launch FILE --json` prints."""

    name: str  # of the cluster
    machines: tuple[Machine, ...]
    jobs: tuple[NamedJob, ...]


def command(
    file: Annotated[Path, argument("FILE", "A file in TOML.")],
    *,
    dry_run: Annotated[bool, option("--dry-run", "Show what would happen.")] = False,
    keep: Annotated[bool, option("--keep", "Leave new hosts up if a later step fails.")] = False,
    replace: Annotated[bool, option("--replace", "Rebuild it if its hosts do not answer.")] = False,
    yes: flags.Yes = False,
    json: flags.Json = False,
) -> None:
    launch = read_launch_file(file)
    if dry_run:
        plan = plan_spec(launch.spec, launch.proof)[1]
        steps = tuple(map(step_words, launch.steps()))
        if json:
            print_json(DryRun(name=launch.spec.name, plan=plan, steps=steps))
        else:
            print_lines(*plan.lines, *steps)
        return

    def tell(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    with HostProgress(console(stderr=True)) as progress:
        cluster, jobs = launch_file(
            launch,
            progress,
            confirm=lambda plan: confirm_cost(launch.spec, plan, tell, yes=yes),
            replace=replace,
            keep=keep,
            on_step=tell,
        )
    if json:
        records = tuple(job.record for job in jobs)
        print_json(Launched(name=cluster.name, machines=cluster.machines, jobs=records))
        return
    if launch.down:
        return
    show_hosts(cluster, as_json=False, most=MOST_SHOWN)
    for job in jobs:
        hosts, name = len(job.record.tasks), job.name
        print_lines(f"{name} on {hosts} host(s): cluster logs {cluster.name} {name} -f")
