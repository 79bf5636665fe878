"""Show the jobs and benchmarks of a cluster, and how they ended.

Example: cluster status mine train
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from cluster.cli import flags
from cluster.cli.flags import argument
from cluster.cli.show import relative_path, show_rows
from cluster.core.errors import ClusterError, JobError, ShellError, SpecError
from cluster.core.model.jobs import Attempt, TaskState
from cluster.core.model.records import JobRecord
from cluster.core.model.value import Value
from cluster.core.units import format_seconds
from cluster.orchestration.cluster import Cluster, attach
from cluster.orchestration.jobs.job import Job
from cluster.remote.threads import start
from cluster.reports.table import Column, Columns
from cluster.runs import store

ANSWERS_WITHIN = 5.0  # seconds for a host to say whether its job runs


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
    rows += [] if job else _bench_rows(cluster)
    rows.sort(key=lambda row: row.at)
    columns: Columns[JobRow] = (
        Column("job", lambda row: row.name),
        Column("state", lambda r: r.state + (f", restart {n}" if (n := len(r.attempts)) else "")),
        Column("hosts", lambda row: str(len(row.tasks) or "-"), spare=2),
        Column("exit", lambda r: "-" if r.exit_status is None else str(r.exit_status)),
        Column("age", lambda row: format_seconds(max(0.0, time.time() - row.at)), spare=1),
        Column("command", lambda row: row.command),
    )
    empty = f"There are no jobs. Start one: cluster run {name} --detach -- COMMAND"
    show_rows(rows, columns, empty=empty, as_json=json)


def _job_row(job: Job) -> JobRow:
    tasks = tuple(_task_row(host, state) for host, state in job.states().items())
    statuses = [task.exit_status for task in tasks]
    ended = [status for status in statuses if status is not None]
    return JobRow(
        name=job.name,
        state=job.state,
        command=job.command,
        at=job.record.at,
        exit_status=max(ended, key=abs) if ended and len(ended) == len(statuses) else None,
        folder=job.record.folder,
        tasks=tasks,
        attempts=job.record.attempts,
    )


def _task_row(host: str, state: TaskState | ClusterError) -> TaskRow:
    if isinstance(state, ClusterError):
        return TaskRow(host=host, state="unreachable", reason=state.what)
    if state.end is None:
        return TaskRow(host=host, state=state.state)
    end = state.end
    return TaskRow(host=host, state=end.state, exit_status=end.exit_status, reason=end.reason)


def _bench_rows(cluster: Cluster) -> Iterator[JobRow]:
    """Return a row for each benchmark; the newest may run, so its host is asked."""
    *older, newest = (None, *cluster.state.jobs)
    yield from map(_bench_row, filter(None, older))
    if newest is not None:
        state, code, _ = state_of(cluster)
        yield msgspec.structs.replace(_bench_row(newest), state=state, exit_status=code)


def _bench_row(job: JobRecord) -> JobRow:
    try:
        record = store.record(Path(job.run))
        state, status = str(record.status), record.exit_status
    except ClusterError:  # its folder was removed
        state, status = "unknown", None
    return JobRow(
        name=f"bench {job.benchmark}",
        state=state,
        command=Path(job.run).name,
        at=job.at,
        exit_status=status,
        folder=job.run,
    )


def short_run(run: str | None) -> str:
    return str(relative_path(Path(run))) if run else "-"


def state_of(cluster: Cluster) -> tuple[str, int | None, str | None]:
    """Return status, exit status and run of the newest job; its host has seconds to answer."""
    if not cluster.machines:
        return "incomplete", None, None
    try:
        record, status = cluster.job()
    except SpecError:
        return "idle", None, None
    try:
        code = start(cluster.bench_jobs.exit_status).result(ANSWERS_WITHIN)
    except JobError:
        return "lost", None, record.run
    except (ShellError, TimeoutError):  # it may still run there, and the others are still listed
        cluster.close()  # ends what waits for the host, such as a step of srun
        return "out of reach", None, record.run
    if status in ("planned", "running") and code is not None:
        return "ended, to be fetched", code, record.run
    return status, code, record.run
