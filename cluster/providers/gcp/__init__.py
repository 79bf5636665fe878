"""Google Compute Engine: clusters close together that never leak."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

import msgspec

from cluster.core import journal
from cluster.core.errors import ClusterError
from cluster.core.model.billing import Plan, RemoteCluster, Resource
from cluster.core.model.value import Value, ignore
from cluster.providers import Provider
from cluster.providers._cloud.api_errors import Failure
from cluster.providers._cloud.deletion import REMAINS, listing_delay
from cluster.providers._cloud.launch import INSTANCES, Intent
from cluster.providers.gcp import api
from cluster.providers.gcp.accelerators import requested_accelerators
from cluster.providers.gcp.api import Project
from cluster.providers.gcp.create import PROVIDER, GcpLaunch, forget, record_intent
from cluster.providers.gcp.delete import LOOKED_FOR, GcpDeletion, GcpUnlisted, OpenCall, console
from cluster.providers.gcp.errors import to_cluster_error
from cluster.providers.gcp.inventory import PLACE, list_clusters
from cluster.providers.gcp.labels import OwnerFilter
from cluster.providers.gcp.options import GcpOffer, GcpOptions
from cluster.providers.gcp.plan import make_offer, project_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.core.model.hosts import Machine
    from cluster.core.model.spec import ClusterSpec
    from cluster.core.model.value import StateCallback


class GcpProvider(Provider):
    """Machines of Google Compute Engine, which cost money while they exist."""

    Options: ClassVar[type[Value]] = GcpOptions
    resumes: ClassVar[bool] = True
    ready_within: ClassVar[float] = 300.0
    passing_states: ClassVar[frozenset[str]] = frozenset({"authentication"})  # by the guest agent

    def __init__(self, regions: tuple[str, ...] = ()) -> None:
        """Ask nobody yet; one question reaches all regions of a project, so only projects count."""
        super().__init__(tuple(one for one in regions if one.startswith(PLACE)))
        self._projects: dict[tuple[str, str], Project] = {}
        self._offers: dict[bytes, GcpOffer] = {}

    def plan(self, spec: ClusterSpec) -> Plan:
        """Find out everything that reading can tell, or refuse."""
        with _translating_errors("Nothing was created."):
            offer = self._offer(spec)
        return Plan(
            lines=offer.lines, costs=True, price=offer.price, ttl=offer.ttl, gpus=offer.gpus
        )

    def create(
        self, spec: ClusterSpec, journal: journal.Journal, tell: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        """Make the firewall rules, the placement policy, and all machines in one call."""
        options = _options(spec)
        with _translating_errors("Nothing is left."):
            project = self._of(options)
            intent = record_intent(project, spec, journal, lambda: self._offer(spec))
            try:
                return GcpLaunch(project, spec, options, journal, intent, tell).make()
            except (Failure, ClusterError, KeyboardInterrupt):
                forget(journal)
                with _translating_errors(REMAINS.format(spec.name)):
                    _end(project, journal, intent)
                raise

    def find(self, name: str) -> tuple[Resource, ...]:
        """Ask Google, in every project where it may be."""
        with _translating_errors("It may still exist."):
            return tuple(one for sweep in self._sweeps(name) for one in sweep.found())

    def destroy(self, name: str) -> None:
        """Take away what carries our tags, in every project where it may be."""
        book = journal.for_cluster(name)
        forget(book)
        expected = _unlisted(book)
        with _translating_errors("It may still exist."):
            for sweep in self._sweeps(name):
                sweep.end(expected)

    def live(self) -> tuple[RemoteCluster, ...]:
        """Ask Google, wherever we ever made anything, which clusters of ours there are."""
        with _translating_errors("Clusters may exist that are not shown."):
            return tuple(one for project in self._everywhere() for one in list_clusters(project))

    def looked_for(self, name: str) -> str:
        """Say what is looked for, and where."""
        places = ", ".join(project.name for project in self._places(name))
        return f"{LOOKED_FOR} in the project {places}" if places else ""

    def console(self, machine: Machine) -> str:
        """Give what a machine said on its serial console."""
        zone, _, instance = machine.id.partition("/")
        name = machine.name.rpartition(".")[2]
        return "".join(console(project, zone, instance) for project in self._places(name))

    def _offer(self, spec: ClusterSpec) -> GcpOffer:
        """Decide once: what was shown is what will be made."""
        key = msgspec.json.encode(spec)
        if key not in self._offers:
            options = _options(spec)
            requested_accelerators(
                spec, allow_retired=options.allow_retired
            )  # before anybody is asked anything
            self._offers[key] = make_offer(self._of(options), spec, options)
        return self._offers[key]

    def _of(self, options: GcpOptions) -> Project:
        return self._project(project_of(options), options.endpoint)

    def _project(self, name: str, endpoint: str = "") -> Project:
        if (name, endpoint) not in self._projects:
            self._projects[name, endpoint] = Project(name, endpoint)
        return self._projects[name, endpoint]

    def _sweeps(self, name: str) -> list[GcpDeletion]:
        return [
            GcpDeletion(project, OwnerFilter(owner=project.owner, name=name))
            for project in self._places(name)
        ]

    def _places(self, name: str) -> tuple[Project, ...]:
        """Give the projects in which something of a cluster may be."""
        entries = journal.for_cluster(name).entries()
        if not entries:
            return self._everywhere()
        specs = [entry.spec for entry in entries if isinstance(entry, journal.Intended)]
        endpoint = _options(specs[-1]).endpoint if specs else ""
        asked = [entry.region for entry in entries if isinstance(entry, journal.Requested)]
        return tuple(self._project(one, endpoint) for one in dict.fromkeys(asked))

    def _everywhere(self) -> tuple[Project, ...]:
        """Give the projects to look in where no journal says which."""
        known = journal.used_regions(PROVIDER)
        if not self.regions and not known and not api.is_set_up():
            return ()
        named = [one.removeprefix(PLACE) for one in self.regions]
        found = dict.fromkeys([*(named or [api.default_project()]), *known])
        return tuple(self._project(name) for name in found if name)


def _options(spec: ClusterSpec) -> GcpOptions:
    return msgspec.convert(spec.options, GcpOptions, strict=False)


def _end(project: Project, book: journal.Journal, intent: Intent[GcpOffer]) -> None:
    """Take away what one launch made, and nothing of any other."""
    tags = intent.tags
    whose = OwnerFilter(owner=tags.owner, name=tags.name, launch=tags.launch)
    GcpDeletion(project, whose).end(_unlisted(book))


def _unlisted(book: journal.Journal) -> GcpUnlisted:
    """Tell from a journal what Google may not list yet; without one, anything may be."""
    entries = book.entries()
    if not entries:
        return GcpUnlisted(until=time.time() + listing_delay())
    answered = {entry.token for entry in entries if isinstance(entry, journal.Answered)}
    orders = [e for e in entries if isinstance(e, journal.Requested) and e.kind == INSTANCES]
    return GcpUnlisted(
        orders=tuple(
            OpenCall(zone=zone, request=request, at=order.at)
            for order in orders
            if order.token not in answered
            for zone, _, request in [order.token.partition("/")]
        )
    )


@contextmanager
def _translating_errors(left: str) -> Iterator[None]:
    """Turn what Google refused into what a person can use."""
    try:
        yield
    except Failure as failure:
        raise to_cluster_error(failure, left=left) from failure
