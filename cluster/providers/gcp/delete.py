"""Finding what exists by the tags that it carries, and taking it away until nothing is listed."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from cluster.core.model.billing import Resource
from cluster.core.model.value import Value
from cluster.providers._cloud.api_errors import Failure, ignoring
from cluster.providers._cloud.deletion import delete_until_gone, listing_delay
from cluster.providers._cloud.tags import Tags
from cluster.providers.gcp import api
from cluster.providers.gcp.labels import parse_description
from cluster.providers.gcp.responses import GcpInstance, GcpOperation, NamedResource

if TYPE_CHECKING:
    from cluster.providers.gcp.api import Project
    from cluster.providers.gcp.labels import OwnerFilter

INSTANCE = "instance"
AT_ONCE = 10  # calls in flight: as many connections as the client keeps
LOOK_AGAIN = 1.0  # seconds after which it is asked what became of a deletion
LOOKED_FOR = "instances, disks, placement policies, firewall rules, networks"


class GcpResourceType(Value, frozen=True, kw_only=True):
    """A sort of thing, and how Google calls it.

    Args:
        kind: for a person.
        collection: where they are listed.
        param: by which one is deleted.
        labelled: they have labels, so that lists can be filtered.

    """

    kind: str
    collection: str
    param: str
    labelled: bool = False


INSTANCE_TYPE = GcpResourceType(
    kind=INSTANCE, collection="instances", param="instance", labelled=True
)
OTHER_TYPES = (  # in the order in which they can go
    GcpResourceType(kind="disk", collection="disks", param="disk", labelled=True),
    GcpResourceType(
        kind="placement policy", collection="resource_policies", param="resource_policy"
    ),
    GcpResourceType(kind="firewall rule", collection="firewalls", param="firewall"),
    GcpResourceType(kind="network", collection="networks", param="network"),
)


class GcpResource(Value, frozen=True, kw_only=True):
    """A thing of ours that exists.

    Args:
        sort: of thing.
        scope: zone or region, as a call names it; neither for what is everywhere.
        name: of it.
        status: that it has.
        tags: that it carries.

    """

    sort: GcpResourceType
    scope: tuple[tuple[str, str], ...]
    name: str
    status: str
    tags: Tags

    @property
    def resource(self) -> Resource:
        """The same for whoever wonders what is left."""
        state = f" ({self.status})" if self.status else ""
        return Resource(kind=f"{self.sort.kind}{state}", id=self.key.id)

    @property
    def key(self) -> Resource:
        """What tells it from everything else, whatever its state."""
        place = "".join(f"{value}/" for _, value in self.scope)
        return Resource(kind=self.sort.kind, id=f"{place}{self.name}")


class PendingDeletion(Value, frozen=True, kw_only=True):
    """A deletion that was begun, and when by our clock."""

    operation: GcpOperation
    at: float


class OpenCall(Value, frozen=True, kw_only=True):
    """A call for machines whose outcome nobody wrote down.

    Args:
        zone: that it went to.
        request: the id by which Google knows it.
        at: when it was sent, in seconds since the epoch.

    """

    zone: str
    request: str
    at: float


class GcpUnlisted(Value, frozen=True, kw_only=True):
    """What Google may not list yet.

    Args:
        orders: whose outcome is open.
        until: when everything is listed that anybody may have ordered, in seconds since the epoch.

    """

    orders: tuple[OpenCall, ...] = ()
    until: float = 0.0

    def missing(self, project: Project) -> tuple[Resource, ...]:
        """Give what may still appear.

        Args:
            project: to ask.

        Returns:
            It; nothing, once every order is known to be over, or it has been long enough.

        """
        open_ = [order for order in self.orders if _may_bring(project, order)]
        late = [Resource(kind=INSTANCE, id=f"of a call to {order.zone}") for order in open_]
        if time.time() < self.until:
            late.append(Resource(kind=INSTANCE, id="of a call that no journal knows of"))
        return tuple(late)


def _may_bring(project: Project, order: OpenCall) -> bool:
    """Tell whether a call may still bring machines: it may not even have arrived yet."""
    found = project.all(
        "zone_operations",
        GcpOperation,
        zone=order.zone,
        filter=f"clientOperationId = {order.request}",
    )
    if found:
        return not all(operation.done for operation in found)
    return time.time() < order.at + listing_delay()


class GcpDeletion:
    """What exists of ours in a project, and its end.

    Args:
        project: where.
        whose: what is ours; nothing else is ever touched.

    """

    def __init__(self, project: Project, whose: OwnerFilter) -> None:
        """Nothing is asked yet."""
        self._project = project
        self._whose = whose
        self._begun: dict[Resource, PendingDeletion] = {}

    def found(self) -> tuple[Resource, ...]:
        """List everything that exists.

        Returns:
            It.

        """
        return tuple(one.resource for one in (*self._alive(), *self._others()))

    def tags(self) -> tuple[Tags, ...]:
        """List the tags of everything that exists.

        Returns:
            That of each thing.

        """
        return tuple(one.tags for one in (*self._alive(), *self._others()))

    def end(self, expected: GcpUnlisted) -> None:
        """Take away everything, and look until nothing is listed.

        Args:
            expected: what may not be listed yet.

        Raises:
            ProvisionError: something is left.
            Failure: Google refused a call.

        """
        delete_until_gone(
            lambda: self._round() or expected.missing(self._project),
            where=f"the project {self._project.name}",
        )

    def end_instances(self) -> None:
        """Take away the instances, and wait until they are gone.

        Raises:
            ProvisionError: some are left.
            Failure: Google refused a call.

        """
        delete_until_gone(self._end_instances, where=f"the project {self._project.name}")

    def _round(self) -> tuple[Resource, ...]:
        """Look, and take away what can go now; tell what was there."""
        return self._end_instances() or self._end_all(self._others())

    def _end_instances(self) -> tuple[Resource, ...]:
        return self._end_all(self._alive())

    def _end_all(self, there: tuple[GcpResource, ...]) -> tuple[Resource, ...]:
        if there:
            with ThreadPoolExecutor(min(AT_ONCE, len(there))) as pool:
                list(pool.map(self._end, there))
        return tuple(one.resource for one in there)

    def _end(self, one: GcpResource) -> None:
        """Delete it; what is still in use goes in a later round."""
        begun = self._begun.get(one.key)
        with ignoring("missing", "in use"):
            if begun is None:
                operation = self._delete(one)
                self._begun[one.key] = PendingDeletion(operation=operation, at=time.monotonic())
            elif time.monotonic() > begun.at + LOOK_AGAIN:
                self._look(one, begun.operation)

    def _delete(self, one: GcpResource) -> GcpOperation:
        where = {**dict(one.scope), one.sort.param: one.name}
        return self._project.begin(one.sort.collection, "delete", **where)

    def _look(self, one: GcpResource, operation: GcpOperation) -> None:
        """See what became of a deletion; if it went wrong, it is begun again."""
        now = self._project.look(operation)
        if now.done:
            del self._begun[one.key]
            api.check(f"{one.sort.collection}.delete", now)

    def _alive(self) -> tuple[GcpResource, ...]:
        return self._rows(INSTANCE_TYPE, GcpInstance)

    def _others(self) -> tuple[GcpResource, ...]:
        return tuple(one for sort in OTHER_TYPES for one in self._rows(sort, NamedResource))

    def _rows(self, sort: GcpResourceType, of: type[NamedResource]) -> tuple[GcpResource, ...]:
        filters = {"filter": self._whose.filter} if sort.labelled else {}
        return tuple(
            _found(sort, one, tags)
            for one in self._project.all(sort.collection, of, **filters)
            if self._whose.has(one.description) and (tags := parse_description(one.description))
        )


def _found(sort: GcpResourceType, one: NamedResource, tags: Tags) -> GcpResource:
    return GcpResource(
        sort=sort,
        scope=tuple(
            (kind, place.rpartition("/")[2])
            for kind, place in (("zone", one.zone), ("region", one.region))
            if place
        ),
        name=one.name,
        status=one.status if isinstance(one, GcpInstance) else "",
        tags=tags,
    )


def console(project: Project, zone: str, instance: str) -> str:
    """Give what an instance said while it came up; it never fails.

    Args:
        project: where.
        zone: of it.
        instance: its name.

    Returns:
        A text; empty if there is none.

    """
    with suppress(Failure):
        said = project.call("instances", "get_serial_port_output", zone=zone, instance=instance)
        return str(said.get("contents", ""))
    return ""
