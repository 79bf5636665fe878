"""Find resources by the tags in their descriptions, and delete them until none is listed."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar

from cluster.core.model.resources import Resource
from cluster.core.model.value import Value
from cluster.core.state import journal
from cluster.providers._cloud.api_errors import ignoring
from cluster.providers._cloud.deletion import (
    CloudResource,
    Deletion,
    Entries,
    delete_until_gone,
    listing_delay,
)
from cluster.providers.gcp.api import Project, is_done
from cluster.providers.gcp.errors import check_operations, singular
from cluster.providers.gcp.labels import filter_of, is_of, parse_description

if TYPE_CHECKING:
    from google.cloud.compute_v1.types.compute import Operation

    from cluster.providers._cloud.tags import Selection

INSTANCE = "instance"
AT_ONCE = 10  # calls in flight: as many as the client has connections in its pool
LOOK_AGAIN = 1.0  # seconds after which the operation of a deletion is checked

Message = Any  # an Instance, Disk, ResourcePolicy, Firewall or Network of Google's client


class GcpResourceType(Value, frozen=True, kw_only=True):
    kind: str  # for a person
    collection: str  # of the API, in the client's spelling
    has_labels: bool = False  # whether such resources have labels, by which lists can be filtered


INSTANCE_TYPE = GcpResourceType(kind=INSTANCE, collection="instances", has_labels=True)
GROUP_TYPE = GcpResourceType(kind="instance group", collection="instance_group_managers")
OTHER_TYPES = (  # in the order in which they can be deleted
    GROUP_TYPE,
    GcpResourceType(kind="instance template", collection="instance_templates"),
    GcpResourceType(kind="disk", collection="disks", has_labels=True),
    GcpResourceType(kind="placement policy", collection="resource_policies"),
    GcpResourceType(kind="firewall rule", collection="firewalls"),
    GcpResourceType(kind="subnet", collection="subnetworks"),
    GcpResourceType(kind="network", collection="networks"),
)


class GcpResource(CloudResource, frozen=True, kw_only=True):
    type: GcpResourceType  # of the resource
    # its zone or region, as a parameter of calls; empty for a global resource
    scope: tuple[tuple[str, str], ...]
    name: str  # of the resource


class GcpUnlisted(Value, frozen=True, kw_only=True):
    """Machines that Google may not list yet, or no longer under the launch's labels."""

    open_calls: tuple[journal.Requested, ...] = ()  # for machines, whose result is not known
    # when machines of unknown calls are listed at the latest, in seconds since the epoch
    until: float = 0.0
    # names of the machines that Google reported as created, by zone; their disks have the same
    # names
    machines: dict[str, tuple[str, ...]] = {}  # noqa: RUF012 - msgspec copies an empty default
    # what else it created: the collection, and the id as in `GcpResource`
    resources: frozenset[tuple[str, str]] = frozenset()

    def missing(self, project: Project) -> tuple[Resource, ...]:
        """Return the machines that may still appear in a list, until every call is over."""
        zones = [zone for call in self.open_calls if (zone := _may_bring(project, call))]
        late = [Resource(kind=INSTANCE, id=f"of a call to {zone}") for zone in zones]
        if time.time() < self.until:
            late.append(Resource(kind=INSTANCE, id="of a call that no journal knows of"))
        return tuple(late)


def _may_bring(project: Project, call: journal.Requested) -> str:
    """Return the zone in which a call may still create machines; Google may not have it yet."""
    zone, _, request = call.token.partition("/")
    operations = project.all("zone_operations", zone=zone, filter=f"clientOperationId = {request}")
    is_pending = time.time() < call.at + listing_delay()
    is_over = all(map(is_done, operations)) if operations else not is_pending
    return "" if is_over else zone


class GcpDeletion(Deletion[GcpResource]):
    """Finds and deletes selected resources in a project.

    Only by the tags in their descriptions, or unlisted machines by their names and open calls.
    """

    kinds: ClassVar[str] = (
        "instances, disks, placement policies, firewall rules, subnets, networks, instance groups "
        "and templates"
    )
    types: ClassVar[Sequence[GcpResourceType]] = OTHER_TYPES
    place: ClassVar[str] = "the project {}"

    def __init__(
        self, client: Project, selection: Selection, entries: Entries | None = None
    ) -> None:
        super().__init__(client, selection, entries)
        self._project = client
        self._expected = GcpUnlisted() if entries is None else _read_journal(entries)
        # the operation of each deletion, and when it was started on the monotonic clock, in seconds
        self._operations: dict[tuple[str, str], tuple[Operation, float]] = {}
        self._missing: set[tuple[str, str]] = set()  # kinds and ids of the journal that are gone

    def delete_except(self, keep: Collection[str]) -> None:
        stems = {id_.rpartition("/")[2].rpartition("-")[0] for id_ in keep}
        delete_until_gone(lambda: self._attempt(self._groups(stems)), self._place)
        super().delete_except(keep)

    def delete_networks(self, names: Collection[str]) -> None:
        """Delete networks and subnets of some names, and wait until they are gone (Failure)."""
        *_, subnets, networks = OTHER_TYPES

        def remaining() -> list[GcpResource]:
            resources = (*self._resources_of(subnets), *self._resources_of(networks))
            return [resource for resource in resources if resource.name in names]

        delete_until_gone(lambda: self._attempt(remaining()), self._place)

    def _machines(self) -> list[GcpResource]:
        return self._resources_of(INSTANCE_TYPE)

    def _attempt_machines(self) -> tuple[Resource, ...]:
        return self._attempt(self._groups()) or super()._attempt_machines()

    def _groups(self, stems: Collection[str] = ()) -> list[GcpResource]:
        """List the groups that may bring machines, but for those of some names of machines.

        A group takes its machines and its place in the queue along (Compute Engine, "About resize
        requests in a MIG"). If they may not be listed, `_round` raises that after the machines.
        """
        groups: list[GcpResource] = []
        with ignoring("denied"):
            groups = self._resources_of(GROUP_TYPE)
        return [group for group in groups if group.name.rpartition("-")[0] not in stems]

    def _resources_of(self, type_: GcpResourceType) -> list[GcpResource]:
        """List resources by their tags, and those of the journal that have lost their labels."""
        filters = {"filter": filter_of(self._selection)} if type_.has_labels else {}
        rows = self._project.all(type_.collection, **filters)
        resources = [
            resource
            for resource, row in [(_resource(type_, row), row) for row in rows]
            if is_of(self._selection, row.description)
            or (
                (type_.collection, resource.id) in self._expected.resources
                and self._may_be_ours(row)
            )
        ]
        if not type_.has_labels:
            return resources
        listed_ids = {(resource.kind, resource.id) for resource in resources} | self._missing
        for zone, names in self._expected.machines.items():
            if missing := {n for n in names if (type_.kind, f"{zone}/{n}") not in listed_ids}:
                query = f'(name eq "{min(missing).rpartition("-")[0]}-.*")'
                rows = self._project.all(type_.collection, zone=zone, filter=query)
                own_rows = [row for row in rows if row.name in missing and self._may_be_ours(row)]
                absent = missing - {row.name for row in own_rows}
                self._missing |= {(type_.kind, f"{zone}/{name}") for name in absent}
                resources += [_resource(type_, row) for row in own_rows]
        return resources

    def _may_be_ours(self, row: Message) -> bool:
        """Tell whether what has a name of ours is: its description names no other launch."""
        tags = parse_description(row.description)
        return tags is None or is_of(self._selection, row.description)

    def _late_resources(self) -> tuple[Resource, ...]:
        return self._expected.missing(self._project)

    def _delete(self, resources: Sequence[GcpResource]) -> None:
        if resources:
            with ThreadPoolExecutor(min(AT_ONCE, len(resources))) as pool:
                list(pool.map(self._delete_one, resources))

    def _delete_one(self, resource: GcpResource) -> None:
        key = resource.kind, resource.id
        deletion = self._operations.get(key)
        with ignoring("missing", "in use", "internal"):
            if deletion is None:
                collection = resource.type.collection
                scope = {**dict(resource.scope), singular(collection): resource.name}
                operation = self._project.begin(collection, "delete", **scope)
                self._operations[key] = operation, time.monotonic()
            elif time.monotonic() > deletion[1] + LOOK_AGAIN:
                now = self._project.look(deletion[0])
                if is_done(now):
                    del self._operations[resource.kind, resource.id]
                    check_operations(f"{resource.type.collection}.delete", now)


def _read_journal(entries: Entries) -> GcpUnlisted:
    """Read from a journal what Google may not list yet; without a journal, that is anything."""
    if not entries:
        return GcpUnlisted(until=time.time() + listing_delay())
    answers = {e.token: e.ids for e in entries if isinstance(e, journal.Answered)}
    requests = [e for e in entries if isinstance(e, journal.Requested)]
    launches = [entry for entry in requests if entry.kind == journal.INSTANCES]
    machines: dict[str, tuple[str, ...]] = {}
    for token in dict.fromkeys(entry.token for entry in launches):
        zone = token.partition("/")[0]
        machines[zone] = (*machines.get(zone, ()), *answers.get(token, ()))
    return GcpUnlisted(
        open_calls=tuple(entry for entry in launches if entry.token not in answers),
        machines=machines,
        resources=frozenset(
            (entry.kind, id_)
            for entry in requests
            if entry not in launches
            for id_ in answers.get(entry.token, ())
        ),
    )


def _resource(type_: GcpResourceType, row: Message) -> GcpResource:
    scope = tuple(
        (kind, place.rpartition("/")[2])
        for kind in ("zone", "region")  # networks and firewall rules have neither
        if (place := getattr(row, kind, ""))
    )
    return GcpResource(
        kind=type_.kind,
        id="".join(f"{value}/" for _, value in scope) + row.name,
        state=row.status if type_ == INSTANCE_TYPE else "",
        tags=parse_description(row.description),
        type=type_,
        scope=scope,
        name=row.name,
    )
