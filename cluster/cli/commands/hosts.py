"""List the hosts of a cluster.

Example: cluster hosts mine --ssh-config > mine.conf; ssh -F mine.conf 0.mpi.mine
"""

from __future__ import annotations

import sys
from typing import Annotated

from cluster.cli import flags
from cluster.cli.flags import option
from cluster.cli.show import print_json, print_lines, table
from cluster.core.model.hosts import Machine
from cluster.core.model.value import Value
from cluster.orchestration.cluster import Cluster, attach

MOST_SHOWN = 64  # hosts, after `up` and `start`


class HostRow(Value, frozen=True, kw_only=True):
    """One line of `cluster hosts`."""

    name: str
    id: str
    address: str
    user: str
    port: int


def command(
    name: flags.ClusterName,
    json: flags.Json = False,
    ssh_config: Annotated[bool, option("--ssh-config", "Print Host blocks for ssh -F.")] = False,
) -> None:
    cluster = attach(name)
    if ssh_config:
        sys.stdout.write("\n".join(_block(machine) for machine in cluster.machines))
    else:
        show_hosts(cluster, as_json=json)


def show_hosts(cluster: Cluster, *, as_json: bool, most: int = 0) -> None:
    """Show the hosts of a cluster: all, or the first few."""
    rows = [_row(machine) for machine in cluster.machines]
    if as_json:
        print_json(rows)
        return
    table(
        ("name", "id", "address", "user", "port"),
        [
            (r.name, r.id, r.address, r.user or "-", str(r.port or "-"))
            for r in rows[: most or None]
        ],
        empty="It has no hosts.",
    )
    if 0 < most < len(rows):
        print_lines(f"{len(rows) - most} more; all: cluster hosts {cluster.name}")


def _row(machine: Machine) -> HostRow:
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
