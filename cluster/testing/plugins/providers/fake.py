"""Hosts that play a script; see `cluster.testing`."""

from collections.abc import Iterable

from cluster.core.errors import SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.resources import Plan, Resource
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import StateCallback, ignore
from cluster.core.state.journal import Journal
from cluster.providers import Provider, Replaces
from cluster.testing import FakeHosts


class FakeProvider(Provider, Replaces):
    """Makes machines of the block that is open, and ends them."""

    @property
    def _hosts(self) -> FakeHosts:
        if FakeHosts.active is None:
            raise SpecError("Fake hosts are only in a block: with cluster.testing.FakeHosts(): ...")
        return FakeHosts.active

    def plan(self, spec: ClusterSpec) -> Plan:
        return Plan(lines=(f"{spec.hosts} x a host of a script",))

    def create(
        self, spec: ClusterSpec, journal: Journal, on_state: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        return self._make(spec, range(spec.hosts))

    def _make(self, spec: ClusterSpec, places: Iterable[int]) -> tuple[Machine, ...]:
        if self._hosts.refuses:
            raise self._hosts.refuses
        machines = self._hosts.made.get(spec.name, ())
        first = 1 + max((int(m.id.removeprefix("fake-")) for m in machines), default=0)
        new_machines = tuple(
            Machine(  # noqa: S604 - "shell" names a plug-in
                name=spec.machine_name(place),
                id=f"fake-{number}",
                address=f"192.0.2.{number}",
                shell="fake",
                folder=f".cluster-{spec.name}",
                bin=f".cluster-{spec.name}/env/bin",
                job="fake",  # lent, so that there is no SSH between them
            )
            for number, place in enumerate(places, first)
        )
        self._hosts.made[spec.name] = (*machines, *new_machines)
        return new_machines

    def add(
        self,
        spec: ClusterSpec,
        peer: Machine,
        places: tuple[int, ...],
        journal: Journal,
        on_state: StateCallback = ignore,
    ) -> tuple[Machine, ...]:
        return self._make(spec, places)

    def list_except(self, name: str, keep: tuple[Machine, ...]) -> tuple[Resource, ...]:
        ids = {machine.id for machine in keep}
        return tuple(resource for resource in self.find(name) if resource.id not in ids)

    def delete_except(self, name: str, keep: tuple[Machine, ...]) -> None:
        self._hosts.made[name] = keep

    def find(self, name: str) -> tuple[Resource, ...]:
        machines = self._hosts.made.get(name, ())
        return tuple(Resource(kind="host", id=machine.id) for machine in machines)

    def destroy(self, name: str) -> None:
        self._hosts.made.pop(name, None)
