"""Instances as Amazon lists them: right after its creation, one may lack most of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cluster.providers._cloud.launch import EndedMachine, InstanceView
from cluster.providers._cloud.tags import CLUSTER, LAUNCH, OWNER, Selection

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import (
        InstanceNetworkInterfaceTypeDef,
        InstanceTypeDef,
        ReservationTypeDef,
    )

    from cluster.providers.aws.api import Region

Filters = list[dict[str, Any]]

GONE = ("terminated",)
ENDED = ("shutting-down", "terminated", "stopping", "stopped")
# docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
TAKEN = ("Capacity", "Server.SpotInstanceTermination", "Server.SpotInstanceShutdown")


def filters_of(selection: Selection) -> Filters:
    if selection.launches:
        return [{"Name": f"tag:{LAUNCH}", "Values": list(selection.launches)}]
    named = [{"Name": f"tag:{CLUSTER}", "Values": [selection.name]}] if selection.name else []
    return [*named, {"Name": f"tag:{OWNER}", "Values": [selection.owner]}]


def instances(region: Region, filters: Filters) -> tuple[InstanceTypeDef, ...]:
    """List instances in any state.

    Filters ignore ids that Amazon does not know yet; ids as parameters would fail the whole call.
    """
    reservations: tuple[ReservationTypeDef, ...] = region.all(
        "describe_instances", "Reservations", Filters=filters, MaxResults=1000
    )
    return tuple(
        instance for reservation in reservations for instance in reservation.get("Instances", ())
    )


def tags_of(resource: Mapping[str, Any], field: str = "Tags") -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in resource.get(field, ())}


def state_of(instance: InstanceTypeDef) -> str:
    return instance.get("State", {}).get("Name", "pending")


def zone_of(instance: InstanceTypeDef) -> str:
    """Return the zone of an instance; empty if it is not listed yet."""
    return instance.get("Placement", {}).get("AvailabilityZone", "")


def primary(instance: InstanceTypeDef) -> InstanceNetworkInterfaceTypeDef:
    """Return the first network interface of an instance; empty if it is not listed yet."""
    for nic in instance.get("NetworkInterfaces", ()):
        place = nic.get("Attachment", {})
        if not (place.get("DeviceIndex") or place.get("NetworkCardIndex")):
            return nic
    return {}


def instance_view(instance: InstanceTypeDef) -> InstanceView:
    return InstanceView(
        id=instance["InstanceId"],
        alias=instance["InstanceId"],
        private=instance.get("PrivateIpAddress", ""),
        public=instance.get("PublicIpAddress", ""),
    )


def ended_machine(instance: InstanceTypeDef) -> EndedMachine | None:
    """Return how an instance ended, by itself or by somebody else; none if it has not."""
    if (state := state_of(instance)) not in ENDED:
        return None
    reason = instance.get("StateReason", {})
    code, message = reason.get("Code", ""), reason.get("Message", "")
    return EndedMachine(
        id=instance["InstanceId"],
        state=state,
        why=message if code in message else f"{code}: {message}".strip(": "),
        reclaimed=any(mark in code for mark in TAKEN),
    )
