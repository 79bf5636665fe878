"""Download what a job has left, by default the newest, and show its results.

Example: cluster fetch mpi_test
"""

import sys

from cluster.cli import flags
from cluster.cli.show import show_run
from cluster.core.errors import SpecError
from cluster.orchestration.bench.collect import raise_unless_done
from cluster.orchestration.cluster import attach
from cluster.orchestration.jobs.bench_job import BenchJob
from cluster.orchestration.jobs.job import may_run
from cluster.runs.store import read


def command(name: flags.ClusterName, job: flags.AnyJob = "", json: flags.Json = False) -> None:
    cluster = attach(name)
    target = cluster.jobs[job] if job else cluster.jobs.newest()
    if not isinstance(target, BenchJob):
        runs = [host for host, state in target.states().items() if may_run(state)]
        if len(runs) == len(target.record.tasks):
            raise SpecError(
                f"The job {target.name} still runs.",
                remedy=f"Wait for it: cluster wait {name} {target.name}",
            )
        sys.stdout.write(f"{target.fetch()}\n")
        if runs:
            sys.stderr.write(f"Without the tasks that may still run, on {', '.join(runs)}.\n")
        return
    run = read(target.fetch())
    if run.fleet is None or json:
        show_run(run, as_json=json)
    else:
        from cluster.cli.commands.check import show_verdict  # noqa: PLC0415 - only for checks

        show_verdict(run.fleet)
    raise_unless_done(run)
