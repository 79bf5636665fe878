"""New machines of a cluster: the wait until they answer, and the end of those that they replace."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Sequence
from functools import partial

from cluster.core import idle_watch, journal, plugins
from cluster.core.errors import SpecError, Timeout, on_failure, tail
from cluster.core.model.hosts import Machine
from cluster.core.model.value import StateCallback, ignore
from cluster.core.ssh_keys import KNOWN
from cluster.orchestration.hosts.revocation import unless_revoked
from cluster.orchestration.hosts.state import StateOnDisk
from cluster.providers import Boots, HasConsoles, Provider, Replaces, mounts_of, seconds_to_answer
from cluster.remote import host_keys
from cluster.remote.hosts import Hosts
from cluster.remote.mounts import mount_all, unmount_all
from cluster.remote.parallel import connect_all, try_each
from cluster.remote.shells import Shell


def connect(
    disk: StateOnDisk, remote: Hosts, machines: Sequence[Machine], on_state: StateCallback
) -> None:
    """Wait until new machines answer, and mount shared file systems there (ClusterError).

    The Timeout of one that does not answer has its console.
    """
    spec = disk.state.spec
    provider = plugins.load(Provider, spec.provider)
    by_name = {machine.name: machine for machine in machines}
    shells = {name: shell for name, shell in remote.shells().items() if name in by_name}
    try:
        within = seconds_to_answer(provider, spec)
        passing = provider.transient_states if isinstance(provider, Boots) else frozenset()
        with unless_revoked(provider, spec, machines, shells) as check:
            connect_all(shells, within, on_state, transient=passing, between=check)
            if isinstance(provider, Boots) and provider.rotates_host_keys:
                known_hosts = disk.journal.folder / KNOWN
                host_keys.rotate(shells, by_name, known_hosts, between=check)
            if mounts := mounts_of(provider, spec):
                with on_failure(partial(unmount_all, shells)):
                    mount_all(shells, mounts)
        if spec.idle is not None:
            _introduce(disk, remote)
    except Timeout as error:
        late = [machine for machine in machines if machine.name == error.host]
        consoles = map(provider.console, late) if isinstance(provider, HasConsoles) else ()
        means = "\n".join([error.means, *(tail(text) for text in consoles if text)])
        raise Timeout(error.what, means=means, remedy=error.remedy) from error


def _introduce(disk: StateOnDisk, remote: Hosts) -> None:
    """Tell all hosts that answer the addresses of all: one that is in use keeps the others."""
    machines = {machine.name: machine for machine in disk.state.machines}
    text = "".join(f"{machine.address}\n" for machine in machines.values())

    def write(name: str, shell: Shell) -> None:
        shell.write(text, posixpath.join(machines[name].folder, idle_watch.PEERS))

    try_each(remote.shells(), write)


def can_replace(disk: StateOnDisk) -> bool:
    """Tell whether hosts of a cluster can be replaced: it has a provider that creates machines."""
    return isinstance(plugins.load(Provider, disk.state.spec.provider), Replaces)


def replace_lost(disk: StateOnDisk, remote: Hosts, places: tuple[int, ...]) -> None:
    """Create new machines in the places of hosts that do not answer any more, and end these.

    ClusterError: they cannot be created, or do not answer; the cluster is as it was.
    """
    with disk.journal.in_use():
        with on_failure(lambda: end_all_but_kept(disk, remote)):
            create_in_places(disk, remote, disk.state.machines, places, ignore)
            disk.record(journal.Replacing(kept=disk.state.machines))
        end_all_but_kept(disk, remote)


def create_in_places(
    disk: StateOnDisk,
    remote: Hosts,
    old: tuple[Machine, ...],
    places: tuple[int, ...],
    on_state: StateCallback,
) -> None:
    """Create new machines, put them into the places of bad ones, and connect to them."""
    with disk.lock():
        state = disk.state
        if state.machines != old:
            raise SpecError(
                f"Another process replaced hosts of {state.name} meanwhile.",
                remedy=f"Check it again: cluster check {state.name} --replace",
            )
        like = next(m for host, m in enumerate(old) if host not in places)
        disk.record(journal.Replacing(kept=old))
        machines = _replaces(disk).add(state.spec, like, places, disk.journal, on_state)
        new = dict(zip(places, machines, strict=True))
        disk.refresh()
        disk.note_machines(new.get(host, machine) for host, machine in enumerate(old))
        disk.record(journal.Examined(facts=()))
    remote.leave_out_dead(None)  # a new host has the name of one that may be left out
    connect(disk, remote, machines, on_state)


def end_all_but_kept(disk: StateOnDisk, remote: Hosts) -> None:
    """End the machines that a replacement does not keep."""
    with disk.lock():
        if disk.state.machines_to_keep:
            remote.close()
            _replaces(disk).delete_except(disk.state.name, disk.state.machines_to_keep)
            disk.record(journal.Replaced(at=time.time()))


def _replaces(disk: StateOnDisk) -> Replaces:
    name = disk.state.name
    provider = plugins.load(Provider, disk.state.spec.provider)
    if isinstance(provider, Replaces):
        return provider
    raise SpecError(
        f"The hosts of {name} cannot be replaced: the provider {provider.name!r} creates none.",
        remedy=f"Take it down, and launch it again on other hosts: cluster down {name}",
    )
