"""List the clusters that exist, or the hosts of one.

Example: cluster ls mine --ssh-config > mine.conf; ssh -F mine.conf 0.mpi.mine
"""

import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec

from cluster.cli import flags
from cluster.cli.commands.status import state_of
from cluster.cli.flags import option
from cluster.cli.show import print_lines, relative_path, show_rows
from cluster.core import plugins
from cluster.core.errors import ClusterError, ParseError, SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.resources import RemoteCluster
from cluster.core.model.value import Value
from cluster.core.state import journal
from cluster.core.text.units import dollars, format_seconds
from cluster.orchestration.cluster import Cluster, attach
from cluster.providers import ENDED, NeedsCredentials, Provider, Searchable, in_regions
from cluster.remote.parallel import start
from cluster.reports.table import Column, Columns

MOST_SHOWN = 64  # hosts, after `up` and `start`
LIVE_WITHIN = 10.0  # seconds for all clouds and batch systems together


class ClusterRow(Value, frozen=True, kw_only=True):
    """One line of `cluster ls`."""

    name: str
    provider: str
    hosts: int
    addresses: tuple[str, ...]
    age: float
    status: str
    run: str | None
    region: str = ""
    # that its machines cost so far; the most that it can be, if some have ended
    dollars: float | None = None
    expires: float | None = None
    ended: int = 0  # how many machines do not exist any more although nobody took the cluster down


class HostRow(Value, frozen=True, kw_only=True):
    """One line of `cluster ls NAME`."""

    name: str
    id: str
    address: str
    user: str
    port: int


def command(
    name: flags.SomeCluster = "",
    region: flags.Regions = None,
    json: flags.Json = False,
    ssh_config: Annotated[
        bool, option("--ssh-config", "With NAME: print Host blocks for ssh -F.")
    ] = False,
) -> None:
    if ssh_config and not name:
        raise SpecError(
            "--ssh-config is of one cluster, and none was named.",
            remedy="Name one: cluster ls NAME --ssh-config",
        )
    if ssh_config:
        machines = attach(name).machines
        sys.stdout.write("\n".join(_block(machine) for machine in machines))
        return
    if name:
        show_hosts(attach(name), as_json=json)
        return
    answers = [start(partial(_cluster_row, name)) for name in journal.names()]
    live, scopes = _live(region or ())  # both at once: a host, or a cloud, may not answer
    # Add clusters that were launched from another machine, and machines that are off.
    by_name = {row.name: row for row in (answer.result() for answer in answers)}
    for kind, cluster in live:
        if cluster.name not in by_name:
            by_name[cluster.name] = _remote_row(kind, cluster)
        elif set(cluster.states) - {"running"}:
            row = by_name[cluster.name]
            by_name[cluster.name] = msgspec.structs.replace(row, status=_states(cluster))
    rows = list(by_name.values())
    costly = any(row.expires or row.ended for row in rows)
    columns: Columns[ClusterRow] = (
        Column("name", lambda row: row.name),
        Column("provider", lambda row: row.provider, spare=2),
        Column("hosts", lambda row: str(row.hosts)),
        Column("age", lambda row: format_seconds(row.age)),
        Column("status", lambda row: row.status),
        Column("newest run", lambda r: str(relative_path(Path(r.run))) if r.run else "-", spare=1),
        Column("cost", _cost, show=costly),
        Column("ends in", _remaining, show=costly),
    )
    empty = "\n".join(("There are no clusters.", *map("Searched: {}.".format, scopes)))
    show_rows(rows, columns, empty=empty, as_json=json)


def _states(cluster: RemoteCluster) -> str:
    return "/".join(sorted(set(cluster.states))) or "no machines"


def _remote_row(kind: str, cluster: RemoteCluster) -> ClusterRow:
    """Return the row of a cluster that this machine did not launch."""
    age = max(0.0, time.time() - cluster.since) if cluster.since else 0.0
    price, hosts = cluster.price, len(cluster.states)
    return ClusterRow(
        name=cluster.name,
        provider=kind,
        hosts=hosts,
        addresses=cluster.addresses,
        age=age,
        status=f"{_states(cluster)}, of {cluster.host or 'another machine'}",
        run=None,
        region=cluster.region,
        dollars=None if price is None else dollars(price, hosts, age),
        expires=cluster.expires or None,
    )


def _cost(row: ClusterRow) -> str:
    return "-" if row.dollars is None else f"{'at most ' if row.ended else ''}${row.dollars:.2f}"


def _remaining(row: ClusterRow) -> str:
    return "-" if row.expires is None else format_seconds(max(0.0, row.expires - time.time()))


def _live(regions: Sequence[str]) -> tuple[list[tuple[str, RemoteCluster]], list[str]]:
    """Ask all providers at once what exists; return it, and what was searched, by which account."""

    def ask(kind: str) -> tuple[tuple[RemoteCluster, ...], str]:
        provider = in_regions(plugins.find(Provider, kind), tuple(regions))
        if not isinstance(provider, Searchable):
            return (), ""
        login = isinstance(provider, NeedsCredentials)
        return provider.live(), provider.describe_search("") if login else ""

    answers = {kind: start(partial(ask, kind)) for kind in plugins.names(Provider)}
    clusters: list[tuple[str, RemoteCluster]] = []
    scopes: list[str] = []
    deadline = time.monotonic() + LIVE_WITHIN
    for kind, answer in answers.items():
        try:
            live, place = answer.result(max(0.0, deadline - time.monotonic()))
            clusters += [(kind, cluster) for cluster in live]
            scopes += [place] if place else []
        except ClusterError as error:  # the known clusters are still listed
            sys.stderr.write(f"{kind} was not asked: {error}\n")
        except TimeoutError:
            sys.stderr.write(f"{kind} did not answer within {LIVE_WITHIN:g} s.\n")
    return clusters, scopes


def _cluster_row(name: str) -> ClusterRow:
    try:
        cluster = attach(name)
    except ParseError:  # perhaps of another version: the others are still listed
        return ClusterRow(
            name=name, provider="?", hosts=0, addresses=(), age=0.0, status="unreadable", run=None
        )
    status, _, run = state_of(cluster)
    count = 0
    try:
        states = start(cluster.machine_states).result(LIVE_WITHIN)
    except (ClusterError, TimeoutError):
        status = f"{status}; machines not known"
    else:
        count = states.count(ENDED)
        status = f"{count} of {len(states)} machines have ended" if count else status
    if cluster.state.machines_to_keep:
        now = cluster.disk.journal.is_launching()
        status = "replacing hosts" if now else "replacing hosts was interrupted: cluster more gc"
    receipt = cluster.receipt()
    return ClusterRow(
        name=name,
        provider=cluster.spec.provider,
        hosts=len(cluster.machines),
        addresses=tuple(machine.address for machine in cluster.machines),
        age=time.time() - cluster.state.at,
        status=status,
        run=run,
        dollars=receipt.dollars if receipt and cluster.costs else None,
        expires=None if count and count == len(cluster.machines) else cluster.expires,
        ended=count,
    )


def show_hosts(cluster: Cluster, *, as_json: bool, most: int = 0) -> None:
    """Show the hosts of a cluster: all, or the first few."""
    rows = [_host_row(machine) for machine in cluster.machines]
    columns: Columns[HostRow] = (
        Column("name", lambda row: row.name),
        Column("id", lambda row: row.id),
        Column("address", lambda row: row.address),
        Column("user", lambda row: row.user or "-"),
        Column("port", lambda row: str(row.port or "-")),
    )
    first = rows if as_json else rows[: most or None]
    show_rows(first, columns, empty="It has no hosts.", as_json=as_json)
    if 0 < most < len(rows) and not as_json:
        print_lines(f"{len(rows) - most} more; all: cluster ls {cluster.name}")


def _host_row(machine: Machine) -> HostRow:
    user, port = (machine.access.user, machine.access.port) if machine.access else ("", 0)
    return HostRow(name=machine.name, id=machine.id, address=machine.address, user=user, port=port)


def _block(machine: Machine) -> str:
    """Return what OpenSSH's client needs to reach a machine as we do."""
    access = machine.access
    if access is None:
        return f"# {machine.name} is this machine\n"
    settings = {
        "HostName": access.host,
        "User": access.user,
        "Port": str(access.port or ""),
        "IdentityFile": access.key,
        "IdentitiesOnly": "yes" if access.key else "",
        "UserKnownHostsFile": access.known_hosts,
        "HostKeyAlias": access.alias,
    }
    lines = [f'  {key} "{value}"' for key, value in settings.items() if value]
    return "\n".join([f"Host {machine.name}", *lines]) + "\n"
