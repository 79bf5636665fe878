"""Teardown of a cluster: delete its resources, and check that none is left."""

from __future__ import annotations

from cluster.core.errors import ProvisionError
from cluster.providers import Provider
from cluster.remote import ssh_mesh
from cluster.remote.hosts import Hosts
from cluster.remote.jobs import sweep
from cluster.remote.leftovers import Leftovers, end_leftovers
from cluster.remote.mounts import unmount
from cluster.remote.parallel import on_each
from cluster.remote.shells import Shell


def destroy(provider: Provider, name: str, *, again: str) -> None:
    """Delete all resources of a cluster, and check that they are gone (ProvisionError)."""
    provider.destroy(name)
    check_gone(provider, name, again=again)


def check_gone(provider: Provider, name: str, *, again: str) -> None:
    """Ask the provider whether anything of a cluster is left (ProvisionError)."""
    if resources := provider.find(name):
        raise ProvisionError(
            f"{len(resources)} resource(s) of {name} still exist: "
            + ", ".join(f"{resource.kind} {resource.id}" for resource in resources),
            remedy=f"Try again: {again}",
        )


def clean_hosts(hosts: Hosts) -> dict[str, Leftovers]:
    """Remove what is ours from hosts that stay; return what processes were left on each."""
    machines = {machine.name: machine for machine in hosts.machines}

    def clean(name: str, shell: Shell) -> Leftovers:
        machine = machines[name]
        leftovers = end_leftovers(shell, machine.folder)
        if shell.exists(machine.folder):
            unmount(shell)
            ssh_mesh.close_mesh(shell, machine.folder)
            sweep(shell, machine.bin)
            shell.remove(machine.folder)
        return leftovers

    return on_each(hosts.shells(), clean)
