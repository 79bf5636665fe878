"""Finding what exists by the tags that it carries, and taking it away until nothing is listed."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cluster.core.model.billing import Resource
from cluster.core.model.value import Value
from cluster.providers._cloud.api_errors import Failure, ignoring
from cluster.providers._cloud.deletion import delete_until_gone
from cluster.providers._cloud.tags import CLUSTER, LAUNCH, OWNER
from cluster.providers.aws.responses import AwsInstance, Reservation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.providers._cloud.tags import Tags
    from cluster.providers.aws.api import Region

Filters = list[dict[str, Any]]

GATEWAY = "internet gateway"
ATTACHED = "in-use"
DELETED = ("deleting", "deleted")
GONE = ("terminated",)
GOING = ("shutting-down", "terminated")
AT_ONCE = 1000  # ids in one call
LOOKED_FOR = (
    "instances, volumes, network interfaces, key pairs, placement groups, security groups, "
    "virtual networks"
)


def launch_filter(tags: Tags) -> Filters:
    """Give what finds everything of one launch, and of no other."""
    return [{"Name": f"tag:{LAUNCH}", "Values": [tags.launch]}]


def cluster_filter(name: str, owner: str) -> Filters:
    """Give what finds everything of an owner's clusters of one name; of any, if it is empty."""
    named = [{"Name": f"tag:{CLUSTER}", "Values": [name]}] if name else []
    return [*named, {"Name": f"tag:{OWNER}", "Values": [owner]}]


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
    """What Amazon may not list yet.

    Args:
        ids: of instances that it gave us.
        listed: when they must be listed at last, in seconds since the epoch.
        until: when everything must be that it may have made without telling us.

    """

    ids: frozenset[str] = frozenset()
    listed: float = 0.0
    until: float = 0.0

    def missing(self, seen: set[str]) -> tuple[Resource, ...]:
        """Give what may still appear.

        Args:
            seen: ids that were ever listed.

        Returns:
            It; nothing, once it has been long enough.

        """
        now = time.time()
        unseen = self.ids - seen if now < self.listed else frozenset[str]()
        late = [Resource(kind="instance", id=f"{one} (not listed yet)") for one in sorted(unseen)]
        if now < self.until:
            late.append(Resource(kind="instance", id="of a call whose reply never came"))
        return tuple(late)


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

    """

    kind: str
    describe: str
    key: str
    id: str
    delete: str
    param: str
    tags: str = "Tags"


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
LISTS = (
    "describe_instances",
    *(sort.describe for sort in RESOURCE_TYPES),
)  # calls that find what is ours


class AwsDeletion:
    """What exists of ours in a region, and its end.

    Args:
        region: where.
        filters: what finds it: tags of ours, so that nothing else is ever touched.

    """

    def __init__(self, region: Region, filters: Filters) -> None:
        """Nothing is asked yet."""
        self._region = region
        self._filters = filters
        self._told: set[str] = set()  # ids that were told to end
        self._seen: set[str] = set()  # ids that were ever listed

    def found(self) -> tuple[Resource, ...]:
        """List everything that exists.

        Returns:
            It.

        """
        return (*_listed(self._alive()), *self._others())

    def tags(self) -> tuple[dict[str, str], ...]:
        """List the tags of everything that exists.

        Returns:
            Those of each thing.

        """
        others = [
            {tag["Key"]: tag["Value"] for tag in row.get(sort.tags, ())}
            for sort in RESOURCE_TYPES
            for row in self._rows(sort)
        ]
        return (*(one.tags for one in self._alive()), *others)

    def end(self, expected: AwsUnlisted) -> None:
        """Take away everything, and look until nothing is listed.

        Args:
            expected: what may not be listed yet.

        Raises:
            ProvisionError: something is left.
            Failure: Amazon refused a call.

        """
        delete_until_gone(lambda: self._round() or expected.missing(self._seen), self._region.name)

    def end_instances(self) -> None:
        """Take away the instances, and wait until they are gone.

        Raises:
            ProvisionError: some are left.
            Failure: Amazon refused a call.

        """
        delete_until_gone(lambda: _listed(self._end_instances()), self._region.name)

    def _round(self) -> tuple[Resource, ...]:
        """Look, and take away what can go now; tell what was there."""
        if alive := self._end_instances():
            return _listed(alive)
        return self._take_others()

    def _alive(self) -> list[AwsInstance]:
        found = instances(self._region, self._filters)
        self._seen |= {one.instance_id for one in found}
        return [one for one in found if one.state.name not in GONE]

    def _end_instances(self) -> list[AwsInstance]:
        """Tell all that live to end, once; give those that are not gone."""
        alive = self._alive()
        doomed = [
            one.instance_id
            for one in alive
            if one.state.name not in GOING and one.instance_id not in self._told
        ]
        for start in range(0, len(doomed), AT_ONCE):
            self._terminate(doomed[start : start + AT_ONCE])
        return alive

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
        self._told |= set(ids)

    def _rows(self, sort: AwsResourceType) -> tuple[Mapping[str, Any], ...]:
        found = self._region.all(sort.describe, sort.key, dict[str, Any], Filters=self._filters)
        return tuple(row for row in found if row.get("State") not in DELETED)

    def _others(self) -> tuple[Resource, ...]:
        return tuple(
            Resource(kind=sort.kind, id=row[sort.id])
            for sort in RESOURCE_TYPES
            for row in self._rows(sort)
        )

    def _take_others(self) -> tuple[Resource, ...]:
        """Try to delete each; what is still in use goes in a later round."""
        there = []
        for sort in RESOURCE_TYPES:
            for row in self._rows(sort):
                there.append(Resource(kind=sort.kind, id=row[sort.id]))
                if ATTACHED not in (row.get("State"), row.get("Status")):  # else it goes with that
                    with ignoring("missing", "in use"):
                        self._delete(sort, row)
        return tuple(there)

    def _delete(self, sort: AwsResourceType, row: Mapping[str, Any]) -> None:
        for attached in row.get("Attachments", ()) if sort.kind == GATEWAY else ():
            with ignoring("missing"):
                self._region.call(
                    "detach_internet_gateway",
                    InternetGatewayId=row[sort.id],
                    VpcId=attached["VpcId"],
                )
        self._region.call(sort.delete, **{sort.param: row[sort.id]})


def _listed(alive: list[AwsInstance]) -> tuple[Resource, ...]:
    return tuple(Resource(kind=f"instance ({one.state.name})", id=one.instance_id) for one in alive)
