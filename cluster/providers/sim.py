"""Simulated hosts: a model of a fabric with max-min fair flows, noise and injected faults.

Nothing is created and nothing is measured: every run on these hosts is marked `simulated`.
"""

from collections.abc import Sequence
from typing import ClassVar

from cluster.core import decoders
from cluster.core.errors import SpecError
from cluster.core.model.hosts import SIMULATED, Link, Machine
from cluster.core.model.network.fabric import Fabric, Fault, Routing, parse_fabric, parse_faults
from cluster.core.model.network.placement import NetworkLayer, ProviderTopology
from cluster.core.model.resources import Plan, Resource
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import StateCallback, Value, ignore
from cluster.core.state.journal import Journal, Replacing
from cluster.core.text.units import parse_rate
from cluster.providers import (
    CLOUD_OPTIONS,
    CountsHosts,
    KnowsTopology,
    Provider,
    Replaces,
    Simulates,
    refuse,
)

REFUSED_OPTIONS = {
    **CLOUD_OPTIONS,
    "placement": "its fabric says where they are: --option fabric=...",
    "instance": "its hosts are made of numbers",
    "zone": "its hosts are nowhere",
}
MTU = 9000
OF_HOSTS = ("host", "nic", "duplicate", "mtu", "cpu", "flap", "drift")  # faults of a host


class SimOptions(Value, frozen=True, kw_only=True):
    """The options of the provider `sim`.

    Args:
        fabric: leafspine:LEAVESxHOSTS, fattree:PORTS or rail:GROUPSxHOSTSxNICS.
        oversubscription: what the hosts of a leaf can send, over what it can pass on.
        routes: how a path is chosen: ecmp (a hash of each connection), dmodk (the number of the
            target) or leastloaded.
        rate: of each NIC, each way.
        fault: planted faults, KIND:NUMBER[:tx|rx|both]=SHARE, several with commas; the kinds are
            host, nic (7.3: NIC 3 of host 7), link (3-5: leaf 3 to spine 5), leaf, uplinks (how many
            of a leaf are left), spine, misroute, duplicate, mtu, cpu, flap and drift.
        noise: KIND:SPREAD of rates: loss, both (two-sided) or tails (losses of heavy tails).
        background: flows of others between the switches, for each host.
        known_routes: the check knows which links each test takes, as it never does on real hosts.
        seed: of routes, noise and flapping; the same seed gives the same values.
    """

    fabric: str = "leafspine:4x8"
    oversubscription: float = 1.0
    routes: Routing = "ecmp"
    rate: str = "100gbit"
    fault: str = ""
    noise: str = "loss:0.01"
    background: float = 0.0
    known_routes: bool = False
    seed: int = 1


class SimProvider(Provider, Simulates, CountsHosts, KnowsTopology, Replaces):
    """Hosts of a simulated fabric, for rehearsals: nothing is measured, and nothing costs money."""

    Options: ClassVar[type[Value]] = SimOptions

    def default_hosts(self, options: dict[str, str]) -> int:
        return _fabric(decoders.convert(options, SimOptions, strict=False)).size

    def plan(self, spec: ClusterSpec) -> Plan:
        refuse(spec, REFUSED_OPTIONS)
        fabric = fabric_of(spec)
        if spec.hosts > fabric.size:
            raise SpecError(
                f"--hosts is {spec.hosts}; the fabric has room for {fabric.size}.",
                remedy="Choose a larger one: --option fabric=leafspine:32x32",
            )
        faults = faults_of(spec)
        note = f", {len(faults)} fault(s) planted" if faults else ""
        line = f"{spec.hosts} simulated hosts: {fabric.words}{note}"
        return Plan(lines=(line,), link=_link(spec))

    def create(
        self, spec: ClusterSpec, journal: Journal, on_state: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        link = _link(spec)
        return tuple(_machine(spec, n, f"sim-{n}", link) for n in range(spec.hosts))

    def add(
        self,
        spec: ClusterSpec,
        peer: Machine,
        places: tuple[int, ...],
        journal: Journal,
        on_state: StateCallback = ignore,
    ) -> tuple[Machine, ...]:
        """Return new simulated hosts, without the faults of those that they replace."""
        new = sum(isinstance(entry, Replacing) for entry in journal.entries())
        link = _link(spec)
        return tuple(_machine(spec, n, f"sim-{n}-new{new}", link) for n in places)

    def delete_except(self, name: str, keep: tuple[Machine, ...]) -> None:
        """Do nothing: nothing was created."""

    def topology(self, spec: ClusterSpec, machines: tuple[Machine, ...]) -> ProviderTopology:
        fabric = fabric_of(spec)
        sizes = {"group of rails" if fabric.kind == "rail" else "leaf switch": fabric.hosts}
        if fabric.kind == "fattree":
            sizes["pod"] = (fabric.ports // 2) ** 2
        layers = (
            NetworkLayer(name=name, groups=tuple(host // size for host in range(spec.hosts)))
            for name, size in sizes.items()
        )
        return ProviderTopology(layers=tuple(layers))

    def find(self, name: str) -> tuple[Resource, ...]:
        return ()

    def destroy(self, name: str) -> None:
        """Do nothing: nothing was created."""


def _machine(spec: ClusterSpec, number: int, id_: str, link: Link) -> Machine:
    return Machine(
        name=spec.machine_name(number),
        id=id_,
        address=id_,
        shell=SIMULATED,
        folder="/nowhere",
        bin="/nowhere",
        link=link,
    )


def _link(spec: ClusterSpec) -> Link:
    return Link(rate=fabric_of(spec).rate, mtu=MTU, source="simulated")


def faults_left(spec: ClusterSpec, machines: Sequence[Machine]) -> tuple[Fault, ...]:
    """Return the faults that are injected into a cluster some of whose hosts were replaced."""
    new = {index for index, machine in enumerate(machines) if machine.id != f"sim-{index}"}
    return tuple(f for f in faults_of(spec) if f.kind not in OF_HOSTS or f.number not in new)


def fabric_of(spec: ClusterSpec) -> Fabric:
    """Return the fabric of a cluster, with the line rate of each NIC (SpecError: it is invalid)."""
    return _fabric(decoders.convert(spec.options, SimOptions, strict=False))


def faults_of(spec: ClusterSpec) -> tuple[Fault, ...]:
    """Return the faults that are injected into a cluster (SpecError: one is not valid)."""
    options = decoders.convert(spec.options, SimOptions, strict=False)
    return parse_faults(options.fault, _fabric(options), spec.hosts)


def _fabric(options: SimOptions) -> Fabric:
    return parse_fabric(
        options.fabric,
        oversubscription=options.oversubscription,
        routes=options.routes,
        rate=parse_rate(options.rate),
    )
