"""Take clusters down; results are downloaded first.

A cluster that was launched from another machine is found by its tags, in --region.

Example: cluster down mpi_test
"""

import sys
from collections.abc import Sequence
from typing import Annotated

import click

from cluster.cli import flags
from cluster.cli.flags import argument, option
from cluster.cli.show import print_json, receipt_lines
from cluster.core.errors import ClusterError, SpecError, collect_errors, raise_all
from cluster.core.model.resources import Receipt
from cluster.core.model.spec import check_name
from cluster.core.model.value import Value
from cluster.core.state import journal
from cluster.orchestration.cluster import Cluster, attach
from cluster.orchestration.launch.orphans import no_clusters, take_down
from cluster.remote.sessions.leftovers import MARK


class DownRow(Value, frozen=True, kw_only=True):
    """A cluster that was taken down, in the answer of `cluster down --json`."""

    name: str  # of the cluster
    # the kinds of resources of which none is left, and where; empty if nothing is ever made outside
    # this machine
    searched: str = ""
    receipt: Receipt | None = None  # of its machines, if they cost money or were proven
    # the processes that commands had left on hosts that stay: host, id, command line
    ended: tuple[str, ...] = ()
    running: tuple[str, ...] = ()  # those of them that were not ended, as a person may use them
    uncleaned: str = ""  # why hosts that stay were not cleaned


def command(
    names: Annotated[
        list[str] | None, argument("NAME...", autocompletion=lambda: list(journal.names()))
    ] = None,
    every: Annotated[bool, option("--all", "All clusters.")] = False,
    yes: Annotated[bool, option("-y --yes", "Do not ask.")] = False,
    region: flags.Regions = None,
    json: flags.Json = False,
) -> None:
    selection = list(journal.names()) if every else list(names or ())
    if not selection and not every:
        raise SpecError("Nothing was named.", remedy="Type: cluster down NAME, or --all")
    clusters = [attach(name) for name in selection if journal.exists(name)]
    if every and clusters and not yes:
        _confirm(clusters)
    orphans = [name for name in selection if not journal.exists(name)]
    targets: list[Cluster | str] = [*clusters, *orphans]
    downs: list[DownRow] = []
    errors: list[ClusterError] = []
    for target in targets:
        with collect_errors(errors):
            row, lines = _take_down(target, region or ())
            downs.append(row)
            _print_unless(json, lines)
    if every and not clusters:
        _print_unless(json, no_clusters(region or ()))
    if json:
        print_json(downs)
    raise_all(errors, "clusters could not be taken down")


def _confirm(clusters: Sequence[Cluster]) -> None:
    names = ", ".join(cluster.name for cluster in clusters)
    question = f"{len(clusters)} cluster(s) found: {names}. Take them down?"
    if not (sys.stdin.isatty() and click.confirm(question)):
        raise SpecError("Nothing was taken down.", remedy="To do it without a question: -y")


def _print_unless(quiet: bool, lines: Sequence[str]) -> None:  # noqa: FBT001
    sys.stdout.write("" if quiet else "".join(f"{line}\n" for line in lines))


def _take_down(target: Cluster | str, regions: Sequence[str]) -> tuple[DownRow, list[str]]:
    """Take down a cluster of this machine, or one that no journal here knows, by its name."""
    if isinstance(target, str):
        scopes = "; ".join(take_down(check_name(target), regions))
        line = f"{target} is down; 0 left (looked for {scopes})."
        return DownRow(name=target, searched=scopes), [line]
    target.down()
    on_hosts = target.leftovers.items()
    ends = tuple(f"{host}: {line}" for host, leftovers in on_hosts for line in leftovers.ended)
    running = tuple(f"{host}: {line}" for host, leftovers in on_hosts for line in leftovers.running)
    row = DownRow(
        name=target.name,
        searched=target.looked_for,
        receipt=target.receipt(),
        ended=ends,
        running=running,
        uncleaned=target.uncleaned,
    )
    lines = [f"Ended a process on {line}" for line in ends]
    lines += [f"Not ended, as it may be yours, on {line}" for line in running]
    lines += receipt_lines(target)
    if not (row.receipt and target.costs):
        lines.append(_down_line(target, len(running)))
    return row, lines


def _down_line(cluster: Cluster, running: int) -> str:
    if cluster.uncleaned:
        return f"{cluster.name} is down; its hosts were not cleaned: {cluster.uncleaned}"
    if not cluster.leftovers:
        return f"{cluster.name} is down; 0 left."
    remains = f"{running} process(es) left: end those that are not yours" if running else "0 left"
    scope = f"our folder, and processes with {MARK}, on {len(cluster.leftovers)} host(s)"
    return f"{cluster.name} is down; {remains} (looked for {scope})."
