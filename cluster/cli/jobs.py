"""The commands about a job: status, logs, wait, fetch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cluster.cli import flags
from cluster.cli.job_progress import JobProgress
from cluster.cli.show import print_json, relative_path, show_run
from cluster.core.errors import JobError, ShellError, SpecError
from cluster.core.model.value import Value
from cluster.orchestration.bench.listener import Listener
from cluster.orchestration.cluster import Cluster, attach
from cluster.remote.threads import start
from cluster.runs.store import read

ANSWERS_WITHIN = 5.0  # seconds for a host to say whether its job runs


class StatusAnswer(Value, frozen=True, kw_only=True):
    """What `cluster status --json` prints."""

    name: str
    status: str
    exit_status: int | None
    run: str | None


def _short(run: str | None) -> str:
    return str(relative_path(Path(run))) if run else "-"


def _state(cluster: Cluster) -> tuple[str, int | None, str | None]:
    """Return status, exit status and run of the newest job; its host has seconds to answer."""
    if not cluster.machines:
        return "incomplete", None, None
    try:
        record, status = cluster.job()
    except SpecError:
        return "idle", None, None
    try:
        code = start(cluster.jobs.exit_status).result(ANSWERS_WITHIN)
    except JobError:
        return "lost", None, record.run
    except (ShellError, TimeoutError):  # it may still run there, and the others are still listed
        cluster.close()  # ends what waits for the host, such as a step of srun
        return "out of reach", None, record.run
    if status in ("planned", "running") and code is not None:
        return "ended, to be fetched", code, record.run
    return status, code, record.run


def status(name: flags.ClusterName, json: flags.Json = False) -> None:
    """Show the status of the newest job of a cluster.

    Example: cluster status mpi_test
    """
    state, code, run = _state(attach(name))
    if json:
        print_json(StatusAnswer(name=name, status=state, exit_status=code, run=run))
        return
    ended = "" if code is None else f" (exit status {code})"
    sys.stdout.write(f"{name}: {state}{ended}\n" + (f"Run folder: {_short(run)}\n" if run else ""))


class _Lines(Listener):
    """Prints every line that the ranks print."""

    def output(self, line: str) -> None:
        """Print it now."""
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def notice(self, line: str) -> None:
        """Print it now, to standard error."""
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def logs(
    name: flags.ClusterName,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Follow the job until it ends.")
    ] = False,
) -> None:
    """Print what the ranks of the newest job print.

    Example: cluster logs mpi_test -f
    """
    cluster = attach(name)
    if follow:
        cluster.wait(_Lines())
    else:
        sys.stdout.write(cluster.logs())


def wait(name: flags.ClusterName) -> None:
    """Wait for the newest job; exits with its exit status.

    Example: cluster wait mpi_test && cluster fetch mpi_test
    """
    cluster = attach(name)
    try:
        with JobProgress(stderr=False) as live:
            code = cluster.wait(live)
    except KeyboardInterrupt:
        sys.stderr.write(f"The job goes on. To stop it: cluster down {name}\n")
        raise
    sys.stdout.write(f"It ended with exit status {code}. Then: cluster fetch {name}\n")
    raise typer.Exit(code)


def fetch(name: flags.ClusterName, json: flags.Json = False) -> None:
    """Download the results of the newest job, and show them.

    Example: cluster fetch mpi_test
    """
    cluster = attach(name)
    try:
        cluster.fetch()
    except JobError:
        _show_results(cluster, as_json=json)
        raise
    _show_results(cluster, as_json=json)


def _show_results(cluster: Cluster, *, as_json: bool) -> None:
    """Show the newest run; of a check, its verdict as `cluster check` shows it."""
    run = read(Path(cluster.job()[0].run))
    if run.fleet is None or as_json:
        show_run(run, as_json=as_json)
        return
    from cluster.cli.fleet_verdict import show_verdict  # noqa: PLC0415 - only for checks

    show_verdict(run.fleet)
