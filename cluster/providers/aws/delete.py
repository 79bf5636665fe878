"""Find resources by their tags, and delete them until none is listed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from cluster.core.model.resources import Resource
from cluster.core.model.value import Value
from cluster.core.state import journal
from cluster.providers._cloud.api_errors import Failure, ignoring
from cluster.providers._cloud.deletion import CloudResource, Deletion, Entries, listing_delay
from cluster.providers._cloud.tags import Selection, parse_tags
from cluster.providers.aws.instances import GONE, filters_of, instances, state_of, tags_of

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import InstanceTypeDef

    from cluster.providers.aws.api import Region

INSTANCE, ELASTIC_IP = "instance", "Elastic IP"
ELASTIC_IP_REQUEST = "elastic-ip"  # the kind of its requests in a journal
PAID = {  # what costs money by itself: the kind of its requests, and of the resource
    journal.INSTANCES: INSTANCE,
    ELASTIC_IP_REQUEST: ELASTIC_IP,
}
ATTACHED = "in-use"
DELETED = ("deleting", "deleted")
GOING = ("shutting-down", "terminated")
AT_ONCE = 1000  # most ids in one call


class AwsUnlisted(Value, frozen=True, kw_only=True):
    """What the journal knows of, whether Amazon lists it under the tags or not."""

    creations: frozenset[Resource] = frozenset()  # resources that Amazon reported as created
    # when the newest of those that cost money is listed at the latest, in seconds since the epoch
    deadline: float = 0.0
    # by kind, when resources of a call without a reply are listed at the latest, in seconds since
    # the epoch; of the kinds that cost money by themselves
    until: dict[str, float] = {}  # noqa: RUF012 - msgspec copies an empty default

    def other_ids(self, kind: str, ids: Iterable[str]) -> list[str]:
        """Return the ids of a kind that were created but that the tags do not find, sorted."""
        return sorted({r.id for r in self.creations if r.kind == kind} - {*ids})

    def missing(self, resources: set[Resource]) -> tuple[Resource, ...]:
        """Return the resources that may still appear in a list; none, once all must be listed."""
        now = time.time()
        paid_resources = {resource for resource in self.creations if resource.kind in PAID.values()}
        rest = paid_resources - resources if now < self.deadline else frozenset[Resource]()
        late = [
            Resource(kind=resource.kind, id=f"{resource.id} (not listed yet)")
            for resource in sorted(rest, key=lambda resource: resource.id)
        ]
        late += [
            Resource(kind=kind, id="of a call whose reply never came")
            for kind, deadline in self.until.items()
            if now < deadline
        ]
        return tuple(late)


class AwsResourceType(Value, frozen=True, kw_only=True):
    kind: str  # for a person
    describe: str  # the call that lists resources of the type
    key: str  # of the list in its answer
    id: str  # the field with the id by which a resource is deleted
    delete: str  # the call that deletes a resource
    param: str  # the parameter of that call for the id
    by_id: str  # the filter that finds a resource by its id
    request: str  # the kind of its requests in a journal
    tags: str = "Tags"  # the field with the tags


def _type(request: str, kind: str = "", **exceptions: str) -> AwsResourceType:
    """Return a type whose names at Amazon follow from that of its requests, but for exceptions."""
    call = request.replace("-", "_")
    name = request.title().replace("-", "")
    fields = {
        "describe": f"describe_{call}s",
        "key": f"{name}s",
        "id": f"{name}Id",
        "delete": f"delete_{call}",
        "by_id": f"{request}-id",
    } | exceptions
    fields.setdefault("param", fields["id"])
    return AwsResourceType(kind=kind or request.replace("-", " "), request=request, **fields)


RESOURCE_TYPES = (  # in the order in which they can be deleted
    _type("volume"),
    _type("network-interface", tags="TagSet"),
    _type(
        ELASTIC_IP_REQUEST,
        ELASTIC_IP,
        describe="describe_addresses",
        key="Addresses",
        id="AllocationId",
        delete="release_address",
        by_id="allocation-id",
    ),
    _type("key-pair", id="KeyName", by_id="key-name"),
    _type("placement-group", id="GroupName", by_id="group-name"),
    _type("security-group", id="GroupId", by_id="group-id"),
    _type("subnet"),
    _type("internet-gateway"),
    _type("vpc", "virtual network"),
)
KINDS = {
    **PAID,
    **{resource_type.request: resource_type.kind for resource_type in RESOURCE_TYPES},
}  # by those in a journal
LISTS = (
    "describe_instances",
    *(resource_type.describe for resource_type in RESOURCE_TYPES),
)  # to find resources


class AwsResource(CloudResource, frozen=True, kw_only=True):
    type: AwsResourceType | None = None  # of the resource; none for an instance
    in_use: bool = False  # it is attached, and is deleted together with what it is attached to
    networks: tuple[str, ...] = ()  # ids of the virtual networks that a gateway is attached to


class AwsDeletion(Deletion[AwsResource]):
    """Finds and deletes resources by their tags, or as unlisted by their ids; nothing else."""

    kinds: ClassVar[str] = (
        "instances, volumes, network interfaces, Elastic IPs, key pairs, placement groups, "
        "security groups, virtual networks"
    )
    types: ClassVar[Sequence[AwsResourceType]] = RESOURCE_TYPES

    def __init__(
        self, client: Region, selection: Selection, entries: Entries | None = None
    ) -> None:
        super().__init__(client, selection, entries)
        self._region = client
        self._filters = filters_of(selection)
        self._expected = AwsUnlisted() if entries is None else _read_journal(entries, client.name)
        self._terminations: set[str] = set()  # ids for which termination was requested
        self._resources: set[Resource] = set()  # resources listed so far, besides instances
        self._alive: set[str] = set()  # ids of the instances listed last, besides terminated ones
        self._dead: set[str] = set()  # ids of those seen to end, or that Amazon knows no more

    def _machines(self) -> list[AwsResource]:
        rows = instances(self._region, self._filters)
        if ids := self._expected.other_ids(INSTANCE, (instance["InstanceId"] for instance in rows)):
            by_id = [{"Name": "instance-id", "Values": ids}]
            rows += instances(self._region, by_id)
        self._dead |= {i["InstanceId"] for i in rows if state_of(i) in GOING}
        alive = [instance for instance in rows if state_of(instance) not in GONE]
        self._alive = {instance["InstanceId"] for instance in alive}
        return [_instance(instance) for instance in alive]

    def _resources_of(self, type_: AwsResourceType) -> list[AwsResource]:
        list_ = partial(self._region.all, type_.describe, type_.key)
        rows = list_(Filters=self._filters)
        if ids := self._expected.other_ids(type_.kind, (row[type_.id] for row in rows)):
            by_id = list_(Filters=[{"Name": type_.by_id, "Values": ids}])
            rows += tuple(row for row in by_id if self._may_be_ours(_resource(type_, row)))
        self._resources |= {Resource(kind=type_.kind, id=row[type_.id]) for row in rows}
        return [_resource(type_, row) for row in rows if row.get("State") not in DELETED]

    def _may_be_ours(self, resource: AwsResource) -> bool:
        """Tell whether what has a name of ours is: its tags name no other launch."""
        return resource.tags is None or resource.tags.launch in self._selection.launches

    def _late_resources(self) -> tuple[Resource, ...]:
        resources = {Resource(kind=INSTANCE, id=id_) for id_ in self._alive | self._dead}
        return self._expected.missing(resources | self._resources) or self._unproven()

    def _unproven(self) -> tuple[Resource, ...]:
        """Ask for the instances of the journal by their ids, once all must be listed."""
        if time.time() < self._expected.deadline:
            return ()
        silent = self._expected.other_ids(INSTANCE, self._alive | self._dead)
        self._dead |= {id_ for id_ in silent if not self._exists(id_)}
        return tuple(
            Resource(kind=INSTANCE, id=f"{id_} (not listed any more)")
            for id_ in silent
            if id_ not in self._dead
        )

    def _exists(self, instance: str) -> bool:
        """Ask for an instance by its id; Amazon refuses those that it does not know (any more)."""
        try:
            self._region.call("describe_instances", "Reservations", InstanceIds=[instance])
        except Failure as failure:
            if failure.kind != "missing":
                raise
            return False
        return True

    def _leftovers(self) -> Sequence[AwsResource]:
        addresses = next(type_ for type_ in RESOURCE_TYPES if type_.kind == ELASTIC_IP)
        return [address for address in self._resources_of(addresses) if not address.in_use]

    def _delete(self, resources: Sequence[AwsResource]) -> None:
        ids = [
            resource.id
            for resource in resources
            if resource.type is None
            if resource.state not in GOING and resource.id not in self._terminations
        ]
        for start in range(0, len(ids), AT_ONCE):
            self._terminate(ids[start : start + AT_ONCE])
        for resource in resources:
            if resource.type is not None and not resource.in_use:
                with ignoring("missing", "in use"):
                    for network in resource.networks:
                        with ignoring("missing"):
                            self._region.call(
                                "detach_internet_gateway",
                                InternetGatewayId=resource.id,
                                VpcId=network,
                            )
                    self._region.call(resource.type.delete, **{resource.type.param: resource.id})

    def _terminate(self, ids: list[str]) -> None:
        """Terminate instances; if Amazon refuses all because it lacks one, then one by one."""
        try:
            self._region.call("terminate_instances", InstanceIds=ids)
        except Failure as failure:
            if failure.kind != "missing":
                raise
            for id_ in ids if len(ids) > 1 else ():  # tried again next round: unknown is not gone
                self._terminate([id_])
            return
        self._terminations |= set(ids)


def _read_journal(entries: Entries, region: str) -> AwsUnlisted:
    """Read from a journal what a region may not list yet; without a journal, that is anything."""
    if not entries:
        return AwsUnlisted(until=dict.fromkeys(PAID.values(), time.time() + listing_delay()))
    regional = (e for e in entries if isinstance(e, journal.Requested) and e.region == region)
    requests = [request for request in regional if request.kind in KINDS]
    paid_requests = [request for request in requests if request.kind in PAID]
    answers = {e.token: e.ids for e in entries if isinstance(e, journal.Answered)}
    return AwsUnlisted(
        creations=frozenset(
            Resource(kind=KINDS[request.kind], id=id_)
            for request in requests
            for id_ in answers.get(request.token, ())
        ),
        deadline=max((request.at for request in paid_requests), default=0.0) + listing_delay(),
        until={
            PAID[request.kind]: request.at + listing_delay()  # the last request of a kind counts
            for request in paid_requests
            if request.token not in answers
        },
    )


def _instance(row: InstanceTypeDef) -> AwsResource:
    tags = parse_tags(tags_of(row))
    return AwsResource(kind=INSTANCE, id=row["InstanceId"], state=state_of(row), tags=tags)


def _resource(type_: AwsResourceType, row: Mapping[str, Any]) -> AwsResource:
    return AwsResource(
        kind=type_.kind,
        id=row[type_.id],
        tags=parse_tags(tags_of(row, type_.tags)),
        type=type_,
        in_use=ATTACHED in (row.get("State"), row.get("Status")) or "AssociationId" in row,
        networks=tuple(item["VpcId"] for item in row.get("Attachments", ()) if "VpcId" in item),
    )
