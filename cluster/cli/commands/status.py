"""Show the jobs and benchmarks of a cluster, and how they ended.

Example: cluster status mine train
"""

import time
from typing import Annotated

from cluster.cli import flags
from cluster.cli.flags import argument
from cluster.cli.show import show_rows
from cluster.core.errors import ClusterError
from cluster.core.model.jobs import Attempt
from cluster.core.model.value import Value
from cluster.core.text.units import format_seconds
from cluster.orchestration.cluster import Cluster, attach
from cluster.orchestration.jobs.job import Job, worst
from cluster.remote.parallel import start
from cluster.reports.table import Column, Columns

ANSWERS_WITHIN = 5.0  # seconds for hosts to say whether jobs of a cluster run
RUNNING = ("starting", "running")


class TaskRow(Value, frozen=True, kw_only=True):
    """A task of a job: its state, or `unreachable` and why."""

    host: str
    state: str
    exit_status: int | None = None
    reason: str = ""


class JobRow(Value, frozen=True, kw_only=True):
    """One line of `cluster status`."""

    name: str
    state: str
    command: str
    at: float  # when it was started, in seconds since the epoch
    exit_status: int | None  # the largest of its tasks; None while one runs
    folder: str  # here, of its output or its run
    tasks: tuple[TaskRow, ...] = ()
    attempts: tuple[Attempt, ...] = ()  # its earlier starts, which lost hosts


def command(
    name: flags.ClusterName,
    job: Annotated[str, argument("JOB", "Name of a job.  [default: all]")] = "",
    json: flags.Json = False,
) -> None:
    cluster = attach(name)
    rows = [_job_row(cluster.jobs[job]) for job in ([job] if job else cluster.jobs)]
    rows.sort(key=lambda row: row.at)
    columns: Columns[JobRow] = (
        Column("job", lambda row: row.name),
        Column("state", _state_words),
        Column("hosts", lambda row: str(len(row.tasks) or "-"), spare=2),
        Column("exit", lambda r: "-" if r.exit_status is None else str(r.exit_status)),
        Column("age", lambda row: format_seconds(max(0.0, time.time() - row.at)), spare=1),
        Column("command", lambda row: row.command),
    )
    empty = f"There are no jobs. Start one: cluster run {name} --detach -- COMMAND"
    show_rows(rows, columns, empty=empty, as_json=json)


def _job_row(job: Job) -> JobRow:
    states = job.states()
    tasks: list[TaskRow] = []
    for host, state in states.items():
        if isinstance(state, ClusterError):
            tasks.append(TaskRow(host=host, state="unreachable", reason=state.what))
        elif (end := state.end) is None:
            tasks.append(TaskRow(host=host, state=state.state))
        else:
            row = TaskRow(
                host=host, state=end.state, exit_status=end.exit_status, reason=end.reason
            )
            tasks.append(row)
    statuses = [task.exit_status for task in tasks]
    codes = [status for status in statuses if status is not None]
    return JobRow(
        name=job.name,
        state=worst(states.values()),
        command=job.command,
        at=job.record.at,
        exit_status=max(codes, key=abs) if codes and len(codes) == len(statuses) else None,
        folder=job.record.folder,
        tasks=tuple(tasks),
        attempts=job.record.attempts,
    )


def _running_tasks(row: JobRow) -> int:
    return sum(task.state in RUNNING for task in row.tasks)


def _state_words(row: JobRow) -> str:
    words = [row.state]
    if row.state not in RUNNING and (running := _running_tasks(row)):
        words.append(f"{running} running")
    if row.attempts:
        words.append(f"restart {len(row.attempts)}")
    return ", ".join(words)


def state_of(cluster: Cluster) -> tuple[str, int | None, str | None]:
    """Return state, exit status and folder of the newest job that runs, or else of the newest."""
    if not cluster.machines:
        return "incomplete", None, None
    jobs = sorted(cluster.jobs.values(), key=lambda job: job.record.at, reverse=True)
    if not jobs:
        return "idle", None, None
    unknown = [jobs[0], *(job for job in jobs[1:] if not job.is_kept)]
    try:
        rows = start(lambda: [_job_row(job) for job in unknown]).result(ANSWERS_WITHIN)
    except TimeoutError:  # the other clusters are still listed
        cluster.close()  # ends what waits for a host
        return "unreachable", None, jobs[0].record.folder
    row = next((row for row in rows if _running_tasks(row)), rows[0])
    state = "running" if _running_tasks(row) and row.state != "starting" else row.state
    return state, row.exit_status, row.folder
