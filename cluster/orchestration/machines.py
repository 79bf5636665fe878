"""Machines that stand: what the journal knows of them, and how they are made ready for ranks."""

from __future__ import annotations

import posixpath
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from cluster.core import journal, plugins
from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.billing import Plan, Price, Receipt
from cluster.core.model.hosts import Facts, Layout, Machine
from cluster.core.model.value import StateCallback, ignore
from cluster.core.money import dollars
from cluster.core.ssh_keys import KNOWN
from cluster.providers import Provider
from cluster.remote import host_keys, ssh_mesh
from cluster.remote.common_network import CommonNetwork, find_common_network
from cluster.remote.hosts import Hosts
from cluster.remote.parallel import connect_all, on_each

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cluster.core.model.spec import ClusterSpec, Environment

LAUNCH_PHASES = ("launch", "create", "running", "ssh")
ANSWER_WITHIN = 5.0  # seconds for hosts that were reachable before


class Standing(Hosts):
    """The machines of a cluster, as they were launched, with all that ranks need.

    Args:
        spec: what was asked.
        book: its journal.

    """

    def __init__(self, spec: ClusterSpec, book: journal.Journal) -> None:
        """Read from the journal what exists."""
        super().__init__(spec.name)
        self.spec = spec
        self._journal = book
        self.facts: tuple[Facts, ...] = ()
        self.costs = False
        self.price: Price | None = None
        self.expires: float | None = None
        self.phases: dict[str, float] = {}
        self._launched = False
        self._ttl: float | None = None
        self._orders: dict[str, float] = {}  # when each call was sent first
        self._given = 0  # machines that such a call gave
        self._switched: list[float] = []  # when they were on, off, on ...
        self._gone_at: float | None = None
        self._environment: Environment | None = None
        self._read_journal()

    def _read_journal(self) -> None:
        """Learn what exists; another process may have added to it."""
        self._switched.clear()
        self._launched = False
        for entry in self._journal.entries():
            self._replay(entry)
            self._replay_cost(entry)

    def _replay(self, entry: journal.Entry) -> None:
        match entry:
            case journal.Intended():
                self.at = entry.at
                self.costs, self.price, self._ttl = entry.costs, entry.price, entry.ttl
            case journal.Created():
                self.machines, self.expires = entry.machines, entry.expires
            case journal.LaunchFinished():
                self._launched = True
            case journal.Examined():
                self.facts = entry.facts

    def _replay_cost(self, entry: journal.Entry) -> None:
        """Learn how many machines cost money, and when: from the call that asked for them."""
        match entry:
            case journal.Requested():
                self._orders.setdefault(entry.token, entry.at)
            case journal.Answered() if entry.ids:
                self._given = len(entry.ids)
                self._switched = self._switched or [self._orders[entry.token]]
            case journal.Switched():
                self._switched.append(entry.at)

    @property
    def plan(self) -> Plan:
        """What a launch of the same spec would do: nothing, at the price that was agreed."""
        price = f", ${self.price.hourly * len(self.machines):.4g} an hour" if self.price else ""
        line = f"{self.name} is there already: {len(self.machines)} machine(s){price}; none is made"
        return Plan(lines=(line,), costs=self.costs, price=self.price, ttl=self._ttl)

    def can_serve(self, spec: ClusterSpec) -> bool:
        """Tell whether this cluster is what a spec asks for, and every machine answers.

        Args:
            spec: what is asked.

        Returns:
            Whether there is nothing to make.

        """
        if not self.was_launched_as(spec):
            return False
        try:
            connect_all(self.shells(), ANSWER_WITHIN)
        except (ClusterError, ExceptionGroup):
            self.close()
            return False
        return True

    def was_launched_as(self, spec: ClusterSpec) -> bool:
        """Tell whether a spec was launched to its end, without asking whether it still stands.

        Args:
            spec: what is asked.

        Returns:
            Whether its machines were all there once.

        """
        return spec == self.spec and self._launched

    def is_unfinished(self, spec: ClusterSpec) -> bool:
        """Tell whether this is a launch of a spec that was interrupted, and could go on.

        Args:
            spec: what is asked.

        Returns:
            Whether nobody is at it any more, and it was not over.

        """
        return spec == self.spec and not self._launched

    def note_launch(self, seconds: float) -> None:
        """Keep how long our own launch took, and each of its phases.

        Args:
            seconds: in all.

        """
        self.phases = {"launch": seconds, **self._timed()}

    def _timed(self) -> dict[str, float]:
        """Give how long each phase of the launch took, whichever process launched it."""
        timed = [e for e in self._journal.entries() if isinstance(e, journal.Timed)]
        return {entry.phase: entry.seconds for entry in timed}

    def note_connected(self, seconds: float) -> None:
        """Keep how long it took until every machine answered.

        Args:
            seconds: since they were there.

        """
        self._journal.append(journal.Timed(phase="ssh", seconds=seconds))

    def rotate_host_keys(self) -> None:
        """Give each machine a host key that nobody else has.

        Raises:
            ClusterError: it could not be done on one host.
            ExceptionGroup: on several.

        """
        hosts = {machine.name: machine for machine in self.machines}
        host_keys.rotate(self.shells(), hosts, self._journal.folder / KNOWN)

    def receipt(self) -> Receipt | None:
        """Tell what the machines cost so far.

        Returns:
            The receipt; none if they cost nothing.

        """
        if not self._switched:
            return None
        until = self._gone_at or time.time()
        times = [*self._switched, until]
        seconds = sum(off - on for on, off in zip(times[::2], times[1::2], strict=False))
        price, hosts = self.price, len(self.machines) or self._given
        return Receipt(
            hosts=hosts,
            seconds=seconds,
            price=price,
            dollars=None if price is None else dollars(price, hosts, seconds),
            final=self._gone_at is not None,
        )

    def install(self, programs: tuple[str, ...] = (), tell: StateCallback = ignore) -> None:
        """Install what benchmarks need on every host; where it is there already, do nothing.

        Args:
            programs: that a benchmark needs beyond Python, MPI and tmux.
            tell: called with a machine and the step that it begins.

        Raises:
            ClusterError: it could not be installed on one host.
            ExceptionGroup: on several.

        """
        wanted = plugins.load(Provider, self.spec.provider).environment(self.spec)
        if wanted is None:
            return
        from cluster.remote.environment.install import install  # noqa: PLC0415 - slow, and local hosts need none

        wanted = msgspec.structs.replace(wanted, programs=(*wanted.programs, *programs))
        began = time.monotonic()
        hosts = {machine.name: machine for machine in self.machines}
        install(self.shells(), hosts, wanted, self._journal.folder / "logs", tell)
        self._environment = wanted
        self._note_phase("install", began)

    def _examine(self, programs: Sequence[str], gpus_: int = 0) -> None:
        """Ask every host what it is, and whether a job could run there.

        One that was asked before is asked again only if it lacks something, which may be there now.
        """
        if self.facts and all(set(programs) <= set(fact.programs) for fact in self.facts):
            with suppress(SpecError):
                self._check_gpus(self.facts, gpus_)
                return
        from cluster.remote.environment.tools import check_tools, examine  # noqa: PLC0415 - as above

        hosts = {machine.name: machine for machine in self.machines}
        found = on_each(self.shells(), lambda name, shell: examine(shell, hosts[name], programs))
        facts = tuple(found.values())
        check_tools(facts, programs)
        self._check_gpus(facts, gpus_)
        if len(found) > 1:
            self._note_addresses(find_common_network(self.machines, facts))
        self._journal.append(journal.Examined(facts=facts))
        self.facts = facts

    def _check_gpus(self, facts: Iterable[Facts], wanted: int) -> None:
        """Refuse hosts without what GPUs need; in an image the ranks look for themselves."""
        if wanted and not self.image:
            from cluster.measure import gpu_requirements  # noqa: PLC0415 - few benchmarks want any

            for fact in facts:
                gpu_requirements.check_host(fact, wanted)

    def _note_addresses(self, network: CommonNetwork) -> None:
        """Keep where hosts reach one another, which is not always where we reach them."""
        self.note_machines(
            msgspec.structs.replace(machine, address=address)
            for machine, address in zip(self.machines, network.addresses, strict=True)
        )

    def note_machines(self, machines: Iterable[Machine]) -> None:
        """Keep what is now known of the machines.

        Args:
            machines: all of them, in the same order.

        """
        self.machines = tuple(machines)
        self._journal.append(journal.Created(machines=self.machines, expires=self.expires))

    def _join(self) -> None:
        """Let the hosts reach one another, if ranks are to be on several."""
        if len(self.shells()) > 1:
            homes = {fact.home for fact in self.facts}
            if len(homes) > 1:
                raise SpecError(
                    f"Our folder is not at the same place on every host: {', '.join(homes)}.",
                    remedy="Log in with the same name everywhere: --option hosts=me@h1,me@h2",
                )
            ssh_mesh.open_mesh(self.shells(), self._mesh_hosts(), self.name, self._journal.folder)

    def _mesh_hosts(self) -> dict[str, ssh_mesh.MeshHost]:
        return {
            machine.name: ssh_mesh.MeshHost(
                address=machine.address,
                user=fact.user,
                folder=posixpath.join(fact.home, machine.folder),
                path=posixpath.join(fact.home, machine.bin),
                variables=self.variables,
            )
            for machine, fact in zip(self.machines, self.facts, strict=True)
        }

    @property
    def layout(self) -> Layout:
        """Which hosts run how many ranks."""
        several = len(self.shells()) > 1
        folder = posixpath.join(self.facts[0].home, self.machines[0].folder) if several else ""
        sharing = Counter(fact.boot for fact in self.facts)
        return Layout(
            addresses=tuple(machine.address for machine in self.machines),
            ranks_per_host=self.spec.ranks_per_host,
            cores=min((fact.usable_cores for fact in self.facts), default=1),
            sharing=max(sharing.values(), default=1),
            root=any(fact.user == "root" for fact in self.facts),
            networks=find_common_network(self.machines, self.facts).networks if several else (),
            ssh_config=ssh_mesh.config_file(folder) if several else "",
        )

    @property
    def variables(self) -> dict[str, str]:
        """What the environment wants in that of every rank."""
        from cluster.remote.environment.steps import variables  # noqa: PLC0415 - as above

        return variables(self._environment) if self._environment else {}

    @property
    def image(self) -> str:
        """The container image that ranks run in, if any."""
        return self._environment.image if self._environment else ""

    def _note_phase(self, phase: str, began: float) -> None:
        self.phases[phase] = time.monotonic() - began
