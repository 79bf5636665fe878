"""Google Compute Engine: clusters close together that never leak."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

import msgspec

from cluster.core import journal
from cluster.core.errors import ClusterError
from cluster.core.model.billing import Plan, Resource, Sighting
from cluster.core.model.value import Value, nothing
from cluster.providers import Provider
from cluster.providers._cloud.api_errors import Failure
from cluster.providers._cloud.deletion import REMAINS, late
from cluster.providers._cloud.launch import INSTANCES, Intent
from cluster.providers.gcp import api
from cluster.providers.gcp.accelerators import chosen
from cluster.providers.gcp.api import Project
from cluster.providers.gcp.create import PROVIDER, Making, forget, intend
from cluster.providers.gcp.delete import LOOKED_FOR, Expected, Order, Sweep, console
from cluster.providers.gcp.errors import told
from cluster.providers.gcp.inventory import PLACE, living
from cluster.providers.gcp.labels import Whose
from cluster.providers.gcp.options import GcpOptions, Offer
from cluster.providers.gcp.plan import decide, project_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.core.model.hosts import Machine
    from cluster.core.model.spec import ClusterSpec
    from cluster.core.model.value import Tell


class Gcp(Provider):
    """Machines of Google Compute Engine, which cost money while they exist."""

    Options: ClassVar[type[Value]] = GcpOptions
    resumes: ClassVar[bool] = True
    ready_within: ClassVar[float] = 300.0
    passing_states: ClassVar[frozenset[str]] = frozenset({"authentication"})  # by the guest agent

    def __init__(self, regions: tuple[str, ...] = ()) -> None:
        """Ask nobody yet; one question reaches all regions of a project, so only projects count."""
        super().__init__(tuple(one for one in regions if one.startswith(PLACE)))
        self._projects: dict[tuple[str, str], Project] = {}
        self._offers: dict[bytes, Offer] = {}

    def plan(self, spec: ClusterSpec) -> Plan:
        """Find out everything that reading can tell, or refuse."""
        with _telling("Nothing was created."):
            offer = self._offer(spec)
        return Plan(
            lines=offer.lines, costs=True, price=offer.price, ttl=offer.ttl, gpus=offer.gpus
        )

    def create(
        self, spec: ClusterSpec, journal: journal.Journal, tell: Tell = nothing
    ) -> tuple[Machine, ...]:
        """Make the firewall rules, the placement policy, and all machines in one call."""
        options = _options(spec)
        with _telling("Nothing is left."):
            project = self._of(options)
            intent = intend(project, spec, journal, lambda: self._offer(spec))
            try:
                return Making(project, spec, options, journal, intent, tell).make()
            except (Failure, ClusterError, KeyboardInterrupt):
                forget(journal)
                with _telling(REMAINS.format(spec.name)):
                    _end(project, journal, intent)
                raise

    def find(self, name: str) -> tuple[Resource, ...]:
        """Ask Google, in every project where it may be."""
        with _telling("It may still exist."):
            return tuple(one for sweep in self._sweeps(name) for one in sweep.found())

    def destroy(self, name: str) -> None:
        """Take away what carries our mark, in every project where it may be."""
        book = journal.of(name)
        forget(book)
        expected = _expected(book)
        with _telling("It may still exist."):
            for sweep in self._sweeps(name):
                sweep.end(expected)

    def live(self) -> tuple[Sighting, ...]:
        """Ask Google, wherever we ever made anything, which clusters of ours there are."""
        with _telling("Clusters may exist that are not shown."):
            return tuple(one for project in self._everywhere() for one in living(project))

    def looked_for(self, name: str) -> str:
        """Say what is looked for, and where."""
        places = ", ".join(project.name for project in self._places(name))
        return f"{LOOKED_FOR} in the project {places}" if places else ""

    def console(self, machine: Machine) -> str:
        """Give what a machine said on its serial console."""
        zone, _, instance = machine.id.partition("/")
        name = machine.name.rpartition(".")[2]
        return "".join(console(project, zone, instance) for project in self._places(name))

    def _offer(self, spec: ClusterSpec) -> Offer:
        """Decide once: what was shown is what will be made."""
        key = msgspec.json.encode(spec)
        if key not in self._offers:
            options = _options(spec)
            chosen(spec, allow_retired=options.allow_retired)  # before anybody is asked anything
            self._offers[key] = decide(self._of(options), spec, options)
        return self._offers[key]

    def _of(self, options: GcpOptions) -> Project:
        return self._project(project_of(options), options.endpoint)

    def _project(self, name: str, endpoint: str = "") -> Project:
        if (name, endpoint) not in self._projects:
            self._projects[name, endpoint] = Project(name, endpoint)
        return self._projects[name, endpoint]

    def _sweeps(self, name: str) -> list[Sweep]:
        return [
            Sweep(project, Whose(owner=project.owner, name=name)) for project in self._places(name)
        ]

    def _places(self, name: str) -> tuple[Project, ...]:
        """Give the projects in which something of a cluster may be."""
        entries = journal.of(name).entries()
        if not entries:
            return self._everywhere()
        specs = [entry.spec for entry in entries if isinstance(entry, journal.Intended)]
        endpoint = _options(specs[-1]).endpoint if specs else ""
        asked = [entry.region for entry in entries if isinstance(entry, journal.Ordered)]
        return tuple(self._project(one, endpoint) for one in dict.fromkeys(asked))

    def _everywhere(self) -> tuple[Project, ...]:
        """Give the projects to look in where no journal says which."""
        known = journal.places(PROVIDER)
        if not self.regions and not known and not api.is_set_up():
            return ()
        named = [one.removeprefix(PLACE) for one in self.regions]
        found = dict.fromkeys([*(named or [api.default_project()]), *known])
        return tuple(self._project(name) for name in found if name)


def _options(spec: ClusterSpec) -> GcpOptions:
    return msgspec.convert(spec.options, GcpOptions, strict=False)


def _end(project: Project, book: journal.Journal, intent: Intent[Offer]) -> None:
    """Take away what one launch made, and nothing of any other."""
    mark = intent.mark
    whose = Whose(owner=mark.owner, name=mark.name, launch=mark.launch)
    Sweep(project, whose).end(_expected(book))


def _expected(book: journal.Journal) -> Expected:
    """Tell from a journal what Google may not list yet; without one, anything may be."""
    entries = book.entries()
    if not entries:
        return Expected(until=time.time() + late())
    answered = {entry.token for entry in entries if isinstance(entry, journal.Answered)}
    orders = [e for e in entries if isinstance(e, journal.Ordered) and e.kind == INSTANCES]
    return Expected(
        orders=tuple(
            Order(zone=zone, request=request, at=order.at)
            for order in orders
            if order.token not in answered
            for zone, _, request in [order.token.partition("/")]
        )
    )


@contextmanager
def _telling(left: str) -> Iterator[None]:
    """Turn what Google refused into what a person can use."""
    try:
        yield
    except Failure as failure:
        raise told(failure, left=left) from failure
