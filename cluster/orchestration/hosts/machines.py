"""The machines of a cluster: the wait until they answer, and reclaim, replacement and teardown."""

import posixpath
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Self

from cluster.core import idle_watch, plugins
from cluster.core.errors import ClusterError, ProvisionError, SpecError, Timeout, on_failure, tail
from cluster.core.model.hosts import Machine
from cluster.core.model.value import StateCallback, ignore
from cluster.core.state import journal
from cluster.core.state.ssh_keys import KNOWN
from cluster.orchestration.hosts.state import ClusterState, StateOnDisk
from cluster.providers import (
    Boots,
    HasConsoles,
    Provider,
    Replaces,
    Revocable,
    mounts_of,
    seconds_to_answer,
)
from cluster.remote.files.mounts import mount_all, unmount, unmount_all
from cluster.remote.hosts import Hosts
from cluster.remote.network import host_keys, ssh_mesh
from cluster.remote.parallel import connect_all, on_each, start, try_each
from cluster.remote.sessions.jobs import sweep
from cluster.remote.sessions.leftovers import Leftovers, end_leftovers
from cluster.remote.shells import Shell

BETWEEN = 4.0  # seconds between two questions whether machines were reclaimed
ANSWERS_WITHIN = 5.0  # seconds that a run which has ended waits for the answer


def connect(
    disk: StateOnDisk, remote: Hosts, machines: Sequence[Machine], on_state: StateCallback
) -> None:
    """Wait until new machines answer, and mount shared file systems there (ClusterError).

    The Timeout of a machine that does not answer carries its console output.
    """
    spec = disk.state.spec
    provider = plugins.load(Provider, spec.provider)
    by_name = {machine.name: machine for machine in machines}
    shells = {name: shell for name, shell in remote.shells().items() if name in by_name}
    are_connected = False
    try:
        within = seconds_to_answer(provider, spec)
        passing = provider.transient_states if isinstance(provider, Boots) else frozenset()
        with unless_revoked(provider, disk.state, shells) as check:
            connect_all(shells, within, on_state, transient=passing, between=check)
            if isinstance(provider, Boots) and provider.rotates_host_keys:
                known_hosts = disk.journal.folder / KNOWN
                host_keys.rotate(shells, by_name, known_hosts, between=check)
            are_connected = True
            if mounts := mounts_of(provider, spec):
                with on_failure(partial(unmount_all, shells)):
                    mount_all(shells, mounts)
    except Timeout as error:
        if are_connected:  # the server of a mount does not answer
            raise
        late = [machine for machine in machines if machine.name == error.host]
        consoles = map(provider.console, late) if isinstance(provider, HasConsoles) else ()
        means = "\n".join([error.means, *(tail(text) for text in consoles if text)])
        raise Timeout(error.what, means=means, remedy=error.remedy) from error
    if spec.idle is not None:
        # all hosts get the addresses of all: one that is in use keeps the others
        all_machines = {machine.name: machine for machine in disk.state.machines}
        text = "".join(f"{machine.address}\n" for machine in all_machines.values())

        def write(name: str, shell: Shell) -> None:
            shell.write(text, posixpath.join(all_machines[name].folder, idle_watch.PEERS))

        try_each(remote.shells(), write)


class RevocationWatch:
    """Asks a provider, while a block runs, for the `reason` why machines were reclaimed."""

    def __init__(
        self, revocation: Callable[[], ProvisionError | None] | None, stop: Callable[[], object]
    ) -> None:
        self._revocation_of = revocation
        self._stop = stop
        self._over = threading.Event()
        self._stopping = threading.Lock()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.reason: ProvisionError | None = None

    def __enter__(self) -> Self:
        if self._revocation_of is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop asking; wait for what is being stopped, but not for an answer."""
        self._over.set()
        with self._stopping:
            pass

    def check(self) -> None:
        """Raise the reason, if it is known by now."""
        if self.reason:
            raise self.reason

    def ask(self) -> ProvisionError | None:
        """Ask now; none while the machines are ours, or if no answer comes in time."""
        if self._revocation_of is not None and not self.reason:
            answer = start(self._revocation_of)
            with suppress(TimeoutError):
                self.reason = answer.result(ANSWERS_WITHIN)
        return self.reason

    def _ask(self) -> None:
        while self._revocation_of is not None and not self._over.wait(BETWEEN):
            reason = self._revocation_of()
            with self._stopping:
                if not reason or self._over.is_set():
                    continue
                self.reason = reason
                with suppress(ClusterError):
                    self._stop()
                return


@contextmanager
def unless_revoked(
    provider: Provider, state: ClusterState, shells: Mapping[str, Shell]
) -> Iterator[Callable[[], None]]:
    """Raise the reason why machines were reclaimed instead of the errors that follow from it.

    Commands on them end as soon as it is known. The block gets a function that raises the reason,
    too: waits call it between two tries.
    """
    revocation = None
    if isinstance(provider, Revocable):
        machines = tuple(machine for machine in state.machines if machine.name in shells)
        revocation = partial(provider.revocation_reason, state.spec, machines)

    def end_commands() -> None:
        for shell in shells.values():
            shell.close()

    with RevocationWatch(revocation, end_commands) as watch:
        try:
            yield watch.check
        except ClusterError as error:
            reason = watch.ask()
            if reason is None or reason is error:
                raise
            raise reason from error


def can_replace(disk: StateOnDisk) -> bool:
    """Tell whether the provider of a cluster can create machines in place of bad ones."""
    return isinstance(plugins.load(Provider, disk.state.spec.provider), Replaces)


def replace_lost(disk: StateOnDisk, remote: Hosts, places: tuple[int, ...]) -> None:
    """Replace hosts that do not answer any more by new machines.

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
        template = next(m for host, m in enumerate(old) if host not in places)
        disk.record(journal.Replacing(kept=old))
        machines = _replaces(disk).add(state.spec, template, places, disk.journal, on_state)
        new = dict(zip(places, machines, strict=True))
        disk.refresh()
        disk.note_machines(new.get(host, machine) for host, machine in enumerate(old))
        disk.record(journal.Examined(facts=()))
    remote.leave_out_dead(None)  # a new host has the name of one that may be left out
    connect(disk, remote, machines, on_state)


def end_all_but_kept(disk: StateOnDisk, remote: Hosts) -> None:
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
    """Remove our files from hosts that stay; return the processes that were left on each."""
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
