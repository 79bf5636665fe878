"""Show the status of the newest job of a cluster.

Example: cluster status mpi_test
"""

from __future__ import annotations

import sys
from pathlib import Path

from cluster.cli import flags
from cluster.cli.show import print_json, relative_path
from cluster.core.errors import JobError, ShellError, SpecError
from cluster.core.model.value import Value
from cluster.orchestration.cluster import Cluster, attach
from cluster.remote.threads import start

ANSWERS_WITHIN = 5.0  # seconds for a host to say whether its job runs


class StatusAnswer(Value, frozen=True, kw_only=True):
    """What `cluster status --json` prints."""

    name: str
    status: str
    exit_status: int | None
    run: str | None


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


def command(name: flags.ClusterName, json: flags.Json = False) -> None:
    state, code, run = state_of(attach(name))
    if json:
        print_json(StatusAnswer(name=name, status=state, exit_status=code, run=run))
        return
    ended = "" if code is None else f" (exit status {code})"
    sys.stdout.write(
        f"{name}: {state}{ended}\n" + (f"Run folder: {short_run(run)}\n" if run else "")
    )
