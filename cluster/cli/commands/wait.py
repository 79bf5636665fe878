"""Wait for a job, by default the newest.

It exits with the exit status of the job.

Example: cluster wait mpi_test && cluster fetch mpi_test
"""

import sys

from click.exceptions import Exit

from cluster.cli import flags
from cluster.cli.command_line import print_error
from cluster.cli.progress import JobProgress
from cluster.core.errors import ClusterError
from cluster.orchestration.cluster import attach
from cluster.orchestration.jobs.bench_job import BenchJob
from cluster.orchestration.jobs.job import Job


def command(name: flags.ClusterName, job: flags.AnyJob = "") -> None:
    cluster = attach(name)
    target = cluster.jobs[job] if job else cluster.jobs.newest()
    if not isinstance(target, BenchJob):
        wait_for(target)
        sys.stdout.write(f"{target.name} is done. Its output: {target.record.folder}\n")
        return
    try:
        with JobProgress(stderr=False) as live:
            code = target.watch(live)
    except KeyboardInterrupt:
        sys.stderr.write(f"The job goes on. To stop it: cluster down {name}\n")
        raise
    step = f"cluster fetch {name} {job}".rstrip()
    sys.stdout.write(f"It ended with exit status {code}. Then: {step}\n")
    raise Exit(code)


def wait_for(job: Job) -> None:
    """Wait for a job; if it fails, show why, and exit with the status of a task that failed."""
    try:
        job.wait()
    except ClusterError as error:
        statuses = [task.end.exit_status for task in job.ended() if task.end]
        failures = [status for status in statuses if status > 0]
        if not failures:
            raise
        print_error(str(error))
        raise Exit(failures[0]) from error
