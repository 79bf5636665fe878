"""Download the results of the newest job, and show them.

Example: cluster fetch mpi_test
"""

from __future__ import annotations

from pathlib import Path

from cluster.cli import flags
from cluster.cli.show import show_run
from cluster.core.errors import JobError
from cluster.orchestration.cluster import Cluster, attach
from cluster.runs.store import read


def command(name: flags.ClusterName, json: flags.Json = False) -> None:
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
    from cluster.cli.commands.check import show_verdict  # noqa: PLC0415 - only for checks

    show_verdict(run.fleet)
