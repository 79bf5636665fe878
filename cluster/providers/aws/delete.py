"""Finding what exists by the tags that it carries, and taking it away until nothing is listed."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from cluster.core import journal
from cluster.core.model.resources import Resource
from cluster.core.model.value import Value
from cluster.providers._cloud.api_errors import Failure, ignoring
from cluster.providers._cloud.deletion import CloudResource, Deletion
from cluster.providers._cloud.tags import CLUSTER, LAUNCH, OWNER, Selection, parse_tags
from cluster.providers.aws.responses import AwsInstance, Reservation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cluster.providers.aws.api import Region

Filters = list[dict[str, Any]]

INSTANCE, ELASTIC_IP, GATEWAY = "instance", "Elastic IP", "internet gateway"
ELASTIC_IP_REQUEST = "elastic-ip"  # the kind of its requests in a journal
PAID = {  # what costs money by itself: the kind of its requests, and its name for a person
    journal.INSTANCES: INSTANCE,
    ELASTIC_IP_REQUEST: ELASTIC_IP,
}
ATTACHED = "in-use"
DELETED = ("deleting", "deleted")
GONE = ("terminated",)
GOING = ("shutting-down", "terminated")
AT_ONCE = 1000  # ids in one call
LOOKED_FOR = (
    "instances, volumes, network interfaces, Elastic IPs, key pairs, placement groups, "
    "security groups, virtual networks"
)


def filters_of(whose: Selection) -> Filters:
    """Give what finds the things of a selection.

    Older revisions wrote an owner with the session of the role, which is a word more.

    Args:
        whose: they are.

    Returns:
        Filters of any call that lists things.

    """
    if whose.launches:
        return [{"Name": f"tag:{LAUNCH}", "Values": list(whose.launches)}]
    owners = [whose.owner]
    if ":assumed-role/" in whose.owner:
        owners.append(f"{whose.owner}/*")
    named = [{"Name": f"tag:{CLUSTER}", "Values": [whose.name]}] if whose.name else []
    return [*named, {"Name": f"tag:{OWNER}", "Values": owners}]


def instances(region: Region, filters: Filters) -> tuple[AwsInstance, ...]:
    """List instances in any state, all in one question.

    Filters give a short list where ids that are not known yet would be an error.

    Args:
        region: where.
        filters: what finds them.

    Returns:
        Them, also those that ended within the last hour or so.

    """
    found = region.all(
        "describe_instances", "Reservations", Reservation, Filters=filters, MaxResults=1000
    )
    return tuple(one for reservation in found for one in reservation.instances)


def console(region: Region, instance: str) -> str:
    """Give what an instance said while it came up; it never fails.

    Args:
        region: where.
        instance: its id.

    Returns:
        A text; empty if there is none.

    """
    for latest in (True, False):  # older types know only what was said at boot
        with suppress(Failure):
            said = region.call("get_console_output", InstanceId=instance, Latest=latest)
            return str(said.get("Output", ""))
    return ""


class AwsUnlisted(Value, frozen=True, kw_only=True):
    """What Amazon may not list yet, of all kinds that cost money by themselves.

    Args:
        made: what it answered that it made.
        listed: when that must be listed at last, in seconds since the epoch.
        until: when that must be which it may have made without an answer, by kind.

    """

    made: frozenset[Resource] = frozenset()
    listed: float = 0.0
    until: dict[str, float] = {}  # noqa: RUF012 - msgspec copies an empty default

    def untagged(self, kind: str, tagged: Iterable[str]) -> list[str]:
        """Give the ids of a kind that were made and that the tags do not find.

        Args:
            kind: such as `instance`.
            tagged: ids that they find.

        Returns:
            The other ids, sorted.

        """
        return sorted({one.id for one in self.made if one.kind == kind} - {*tagged})

    def missing(self, seen: set[Resource]) -> tuple[Resource, ...]:
        """Give what may still appear.

        Args:
            seen: what was ever listed.

        Returns:
            It; nothing, once it has been long enough.

        """
        now = time.time()
        unseen = self.made - seen if now < self.listed else frozenset[Resource]()
        late = [
            Resource(kind=one.kind, id=f"{one.id} (not listed yet)")
            for one in sorted(unseen, key=lambda one: one.id)
        ]
        late += [
            Resource(kind=kind, id="of a call whose reply never came")
            for kind, until in self.until.items()
            if now < until
        ]
        return tuple(late)


NOTHING_UNLISTED = AwsUnlisted()


class AwsResourceType(Value, frozen=True, kw_only=True):
    """A sort of thing, and how Amazon lists and deletes it.

    Args:
        kind: for a person.
        describe: the call that lists it.
        key: of the answer.
        id: of a thing, by which it is deleted.
        delete: the call that deletes it.
        param: of that call.
        tags: the word under which it has its tags.
        by_id: the filter that finds it by its id; empty for what costs nothing by itself.

    """

    kind: str
    describe: str
    key: str
    id: str
    delete: str
    param: str
    tags: str = "Tags"
    by_id: str = ""


RESOURCE_TYPES = (  # in the order in which they can go
    AwsResourceType(
        kind="volume",
        describe="describe_volumes",
        key="Volumes",
        id="VolumeId",
        delete="delete_volume",
        param="VolumeId",
    ),
    AwsResourceType(
        kind="network interface",
        describe="describe_network_interfaces",
        key="NetworkInterfaces",
        id="NetworkInterfaceId",
        delete="delete_network_interface",
        param="NetworkInterfaceId",
        tags="TagSet",
    ),
    AwsResourceType(
        kind=ELASTIC_IP,
        describe="describe_addresses",
        key="Addresses",
        id="AllocationId",
        delete="release_address",
        param="AllocationId",
        by_id="allocation-id",
    ),
    AwsResourceType(
        kind="key pair",
        describe="describe_key_pairs",
        key="KeyPairs",
        id="KeyName",
        delete="delete_key_pair",
        param="KeyName",
    ),
    AwsResourceType(
        kind="placement group",
        describe="describe_placement_groups",
        key="PlacementGroups",
        id="GroupName",
        delete="delete_placement_group",
        param="GroupName",
    ),
    AwsResourceType(
        kind="security group",
        describe="describe_security_groups",
        key="SecurityGroups",
        id="GroupId",
        delete="delete_security_group",
        param="GroupId",
    ),
    AwsResourceType(
        kind="subnet",
        describe="describe_subnets",
        key="Subnets",
        id="SubnetId",
        delete="delete_subnet",
        param="SubnetId",
    ),
    AwsResourceType(
        kind=GATEWAY,
        describe="describe_internet_gateways",
        key="InternetGateways",
        id="InternetGatewayId",
        delete="delete_internet_gateway",
        param="InternetGatewayId",
    ),
    AwsResourceType(
        kind="virtual network",
        describe="describe_vpcs",
        key="Vpcs",
        id="VpcId",
        delete="delete_vpc",
        param="VpcId",
    ),
)
LISTS = ("describe_instances", *(one.describe for one in RESOURCE_TYPES))  # find what is ours


class AwsResource(CloudResource, frozen=True, kw_only=True):
    """A thing of ours that exists.

    Args:
        type: of thing; none for an instance.
        in_use: it goes together with what it is attached to.
        networks: ids of the virtual networks that a gateway is attached to.

    """

    type: AwsResourceType | None = None
    in_use: bool = False
    networks: tuple[str, ...] = ()


class AwsDeletion(Deletion[AwsResource]):
    """What exists of ours in a region, and its end.

    Args:
        region: where.
        whose: what is ours, by its tags; nothing else is ever touched.
        unlisted: what is ours, too, by its ids, whatever its tags are now.

    """

    def __init__(
        self, region: Region, whose: Selection, unlisted: AwsUnlisted = NOTHING_UNLISTED
    ) -> None:
        """Nothing is asked yet."""
        super().__init__(region.name)
        self._region = region
        self._filters = filters_of(whose)
        self._expected = unlisted
        self._terminated: set[str] = set()  # ids that were told to end
        self._seen: set[Resource] = set()  # what costs money and was ever listed

    def _machines(self) -> list[AwsResource]:
        found = instances(self._region, self._filters)
        if untagged := self._expected.untagged(INSTANCE, (one.instance_id for one in found)):
            by_id = [{"Name": "instance-id", "Values": untagged}]
            found += instances(self._region, by_id)
        self._seen |= {Resource(kind=INSTANCE, id=one.instance_id) for one in found}
        return [_instance(one) for one in found if one.state.name not in GONE]

    def _others(self) -> list[Callable[[], Sequence[AwsResource]]]:
        return [partial(self._listed, type_) for type_ in RESOURCE_TYPES]

    def _listed(self, type_: AwsResourceType) -> list[AwsResource]:
        list_ = partial(self._region.all, type_.describe, type_.key, dict[str, Any])
        found = list_(Filters=self._filters)
        if untagged := self._expected.untagged(type_.kind, (row[type_.id] for row in found)):
            found += list_(Filters=[{"Name": type_.by_id, "Values": untagged}])
        self._seen |= {Resource(kind=type_.kind, id=row[type_.id]) for row in found}
        return [_resource(type_, row) for row in found if row.get("State") not in DELETED]

    def _unlisted(self) -> tuple[Resource, ...]:
        return self._expected.missing(self._seen)

    def _delete(self, there: Sequence[AwsResource]) -> None:
        self._terminate_all([one for one in there if one.type is None])
        for one in there:
            if one.type is not None and not one.in_use:
                with ignoring("missing", "in use"):
                    self._delete_one(one, one.type)

    def _terminate_all(self, there: list[AwsResource]) -> None:
        """Tell all that live to end, once."""
        doomed = [
            one.id for one in there if one.state not in GOING and one.id not in self._terminated
        ]
        for start in range(0, len(doomed), AT_ONCE):
            self._terminate(doomed[start : start + AT_ONCE])

    def _terminate(self, ids: list[str]) -> None:
        """One id that is not known keeps all others alive, so then they go one by one."""
        try:
            self._region.call("terminate_instances", InstanceIds=ids)
        except Failure as failure:
            if failure.kind != "missing":
                raise
            for one in ids if len(ids) > 1 else ():  # not known is not gone: it is looked for again
                self._terminate([one])
            return
        self._terminated |= set(ids)

    def _delete_one(self, one: AwsResource, type_: AwsResourceType) -> None:
        for network in one.networks:
            with ignoring("missing"):
                self._region.call(
                    "detach_internet_gateway", InternetGatewayId=one.id, VpcId=network
                )
        self._region.call(type_.delete, **{type_.param: one.id})


def _instance(one: AwsInstance) -> AwsResource:
    return AwsResource(
        kind=INSTANCE, id=one.instance_id, state=one.state.name, tags=parse_tags(one.tags)
    )


def _resource(type_: AwsResourceType, row: Mapping[str, Any]) -> AwsResource:
    gateway = type_.kind == GATEWAY
    return AwsResource(
        kind=type_.kind,
        id=row[type_.id],
        tags=parse_tags({tag["Key"]: tag["Value"] for tag in row.get(type_.tags, ())}),
        type=type_,
        in_use=ATTACHED in (row.get("State"), row.get("Status")) or "AssociationId" in row,
        networks=tuple(one["VpcId"] for one in row.get("Attachments", ())) if gateway else (),
    )
