"""The commands about clusters: ls, connect, down."""

from __future__ import annotations

import os
import shlex
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from cluster.cli import flags
from cluster.cli.jobs import _short, _state
from cluster.cli.show import (
    print_json,
    receipt_lines,
    table,
)
from cluster.core import journal, plugins
from cluster.core.errors import ClusterError, HostErrors, ParseError, SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.resources import Receipt, RemoteCluster
from cluster.core.model.spec import check_name
from cluster.core.model.value import Value
from cluster.core.money import dollars
from cluster.core.units import format_seconds
from cluster.orchestration.cluster import Cluster, attach
from cluster.orchestration.launch.orphans import no_clusters, take_down
from cluster.providers import ENDED, Provider
from cluster.remote.leftovers import MARK
from cluster.remote.threads import start

if TYPE_CHECKING:
    from collections.abc import Sequence

LIVE_WITHIN = 10.0  # seconds for all clouds and batch systems together


class ClusterRow(Value, frozen=True, kw_only=True):
    """One line of `cluster ls`.

    Args:
        dollars: that its machines cost so far; the most that it can be, if some have ended.
        ended: how many machines do not exist any more although nobody took the cluster down.

    """

    name: str
    provider: str
    hosts: int
    addresses: tuple[str, ...]
    age: float
    status: str
    run: str | None
    region: str = ""
    dollars: float | None = None
    expires: float | None = None
    ended: int = 0


class DownRow(Value, frozen=True, kw_only=True):
    """A cluster that was taken down, in the answer of `cluster down --json`.

    Args:
        name: of the cluster.
        searched: the kinds of resources of which none is left, and where; empty if nothing is
            ever made outside this machine.
        receipt: of its machines, if they cost money.
        ended: the processes that commands had left on hosts that stay: host, id, command line.
        running: those of them that were not ended, as a person may use them.

    """

    name: str
    searched: str = ""
    receipt: Receipt | None = None
    ended: tuple[str, ...] = ()
    running: tuple[str, ...] = ()


class Down(Value, frozen=True, kw_only=True):
    """A cluster that was taken down, for a program and for a person."""

    row: DownRow
    lines: tuple[str, ...]


def ls(region: flags.Regions = None, json: flags.Json = False) -> None:
    """List the clusters that exist.

    Example: cluster ls
    """
    asked = [start(partial(_cluster_row, name)) for name in journal.names()]
    live, searched = _live(region or ())  # both at once: a host, or a cloud, may not answer
    rows = _with_live([row.result() for row in asked], live)
    if json:
        print_json(rows)
        return
    costly = any(row.expires or row.ended for row in rows)
    table(
        ("name", "provider", "hosts", "age", "status", "newest run", "cost", "ends in")[
            : None if costly else 6
        ],
        [_cells(row)[: None if costly else 6] for row in rows],
        empty="\n".join(("There are no clusters.", *map("Searched: {}.".format, searched))),
        spare=(("newest run",), ("provider",)),
    )


def _cells(row: ClusterRow) -> tuple[str, ...]:
    left = "-" if row.expires is None else format_seconds(max(0.0, row.expires - time.time()))
    return (
        row.name,
        row.provider,
        str(row.hosts),
        format_seconds(row.age),
        row.status,
        _short(row.run),
        "-" if row.dollars is None else f"{'at most ' if row.ended else ''}${row.dollars:.2f}",
        left,
    )


def _live(regions: Sequence[str]) -> tuple[list[tuple[str, RemoteCluster]], list[str]]:
    """Ask all clouds and batch systems at once what exists there, and say who did not answer.

    Returns:
        What exists, each with its provider; what was searched, where and as whom.

    """

    def ask(kind: str) -> tuple[tuple[RemoteCluster, ...], str]:
        provider = plugins.find(Provider, kind)(tuple(regions))
        return provider.live(), provider.searched("") if provider.credentials else ""

    asked = {kind: start(partial(ask, kind)) for kind in plugins.names(Provider)}
    found: list[tuple[str, RemoteCluster]] = []
    searched: list[str] = []
    deadline = time.monotonic() + LIVE_WITHIN
    for kind, answer in asked.items():
        try:
            live, where = answer.result(max(0.0, deadline - time.monotonic()))
            found += [(kind, one) for one in live]
            searched += [where] if where else []
        except ClusterError as error:  # the known clusters are still listed
            sys.stderr.write(f"{kind} was not asked: {error}\n")
        except TimeoutError:
            sys.stderr.write(f"{kind} did not answer within {LIVE_WITHIN:g} s.\n")
    return found, searched


def _with_live(
    rows: list[ClusterRow], found: Sequence[tuple[str, RemoteCluster]]
) -> list[ClusterRow]:
    """Add clusters that were launched from another machine, and machines that are off."""
    known = {row.name: row for row in rows}
    for kind, one in found:
        row = known.get(one.name)
        if row is None:
            known[one.name] = _live_row(kind, one)
        elif set(one.states) - {"running"}:
            known[one.name] = msgspec.structs.replace(row, status=_states(one))
    return list(known.values())


def _states(live: RemoteCluster) -> str:
    return "/".join(sorted(set(live.states))) or "no machines"


def _live_row(kind: str, live: RemoteCluster) -> ClusterRow:
    age = max(0.0, time.time() - live.since) if live.since else 0.0
    return ClusterRow(
        name=live.name,
        provider=kind,
        hosts=len(live.states),
        addresses=live.addresses,
        age=age,
        status=f"{_states(live)}, of {live.host or 'another machine'}",
        run=None,
        region=live.region,
        dollars=None if live.price is None else dollars(live.price, len(live.states), age),
        expires=live.expires or None,
    )


def _cluster_row(name: str) -> ClusterRow:
    try:
        cluster = attach(name)
    except ParseError:  # perhaps of another version: the others are still listed
        return ClusterRow(
            name=name, provider="?", hosts=0, addresses=(), age=0.0, status="unreadable", run=None
        )
    status, _, run = _state(cluster)
    ended = 0
    try:
        states = start(cluster.machine_states).result(LIVE_WITHIN)
    except (ClusterError, TimeoutError):
        status = f"{status}; machines not known"
    else:
        ended = states.count(ENDED)
        status = f"{ended} of {len(states)} machines have ended" if ended else status
    if cluster.state.kept:
        now = cluster.disk.journal.is_launching()
        status = "replacing hosts" if now else "replacing hosts was interrupted: cluster gc"
    receipt = cluster.receipt()
    return ClusterRow(
        name=name,
        provider=cluster.spec.provider,
        hosts=len(cluster.machines),
        addresses=tuple(machine.address for machine in cluster.machines),
        age=time.time() - cluster.state.at,
        status=status,
        run=run,
        dollars=receipt.dollars if receipt else None,
        expires=None if ended and ended == len(cluster.machines) else cluster.expires,
        ended=ended,
    )


def connect(
    fragment: Annotated[
        str, typer.Argument(metavar="[FRAGMENT]", help="Part of a name, address or id.")
    ] = "",
    print_: Annotated[
        bool, typer.Option("--print", help="Print the command instead of running it.")
    ] = False,
) -> None:
    """Connect to the newest cluster or host that matches.

    Example: cluster connect mpi_test
    """
    cluster, machine = find_cluster(fragment)
    command = cluster.hosts.attach_command(machine, inside="TMUX" in os.environ)
    if print_ or not (sys.stdin.isatty() and sys.stdout.isatty()):
        sys.stdout.write(shlex.join(command) + "\n")
        return
    os.execvp(command[0], command)  # noqa: S606 - a list, and no shell


def find_cluster(fragment: str) -> tuple[Cluster, Machine | None]:
    """Find the newest cluster that a fragment matches.

    Args:
        fragment: of a cluster's or machine's name, an address or an id; empty means any.

    Raises:
        SpecError: there is none.

    """
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


def down(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", autocompletion=lambda: list(journal.names())),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All clusters.")] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    region: flags.Regions = None,
    json: flags.Json = False,
) -> None:
    """Take clusters down; results are downloaded first.

    A cluster that was launched from another machine is found by its tags, in --region.

    Example: cluster down mpi_test
    """
    chosen = list(journal.names()) if every else list(names or ())
    if not chosen and not every:
        raise SpecError("Nothing was named.", remedy="Type: cluster down NAME, or --all")
    known = journal.names()
    clusters = [attach(name) for name in chosen if name in known]
    if every and clusters and not yes and not _confirmed(clusters):
        raise SpecError("Nothing was taken down.", remedy="To do it without a question: -y")
    downs: list[Down] = []
    failed: list[ClusterError] = []
    asked: list[Cluster | str] = [*clusters, *(name for name in chosen if name not in known)]
    for one in asked:
        try:
            downs.append(_take_down(one, region or ()))
        except ClusterError as error:  # the others are taken down all the same
            failed.append(error)
            continue
        sys.stdout.write("" if json else "".join(f"{line}\n" for line in downs[-1].lines))
    if every and not clusters:
        lines = no_clusters(region or ())
        sys.stdout.write("" if json else "".join(f"{line}\n" for line in lines))
    if json:
        print_json([one.row for one in downs])
    if failed:
        raise failed[0] if len(failed) == 1 else HostErrors(_still_up(failed), failed)


def _take_down(one: Cluster | str, regions: Sequence[str]) -> Down:
    """Take down a cluster of this machine, or one that no journal here knows, by its name."""
    if isinstance(one, str):
        searched = "; ".join(take_down(check_name(one), regions))
        line = f"{one} is down; 0 left (looked for {searched})."
        return Down(row=DownRow(name=one, searched=searched), lines=(line,))
    one.down()
    on_hosts = one.leftovers.items()
    ended = tuple(f"{host}: {line}" for host, found in on_hosts for line in found.ended)
    running = tuple(f"{host}: {line}" for host, found in on_hosts for line in found.running)
    row = DownRow(
        name=one.name,
        searched=one.looked_for,
        receipt=one.receipt(),
        ended=ended,
        running=running,
    )
    lines = [f"Ended a process on {line}" for line in ended]
    lines += [f"Not ended, as it may be yours, on {line}" for line in running]
    return Down(row=row, lines=(*lines, *(receipt_lines(one) or [_down_line(one, len(running))])))


def _down_line(one: Cluster, running: int) -> str:
    """Say that a cluster that costs nothing is down, and what is left of it."""
    if not one.leftovers:
        return f"{one.name} is down; 0 left."
    left = f"{running} process(es) left: end those that are not yours" if running else "0 left"
    hosts = f"on {len(one.leftovers)} host(s)"
    return (
        f"{one.name} is down; {left} (looked for our folder, and processes with {MARK}, {hosts})."
    )


def _still_up(failed: Sequence[ClusterError]) -> str:
    return f"{len(failed)} clusters could not be taken down"


def _confirmed(clusters: Sequence[Cluster]) -> bool:
    if not sys.stdin.isatty():
        return False
    names = ", ".join(cluster.name for cluster in clusters)
    return typer.confirm(f"{len(clusters)} cluster(s) found: {names}. Take them down?")
