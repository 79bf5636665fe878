"""Instances as Amazon lists them, new ones without most fields, and prices: never estimated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cluster.core.model.resources import Price
from cluster.providers._cloud.api_errors import Failure
from cluster.providers._cloud.launch import EndedMachine, InstanceView
from cluster.providers._cloud.tags import CLUSTER, LAUNCH, OWNER, Selection

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import (
        InstanceNetworkInterfaceTypeDef,
        InstanceTypeDef,
        ReservationTypeDef,
        SpotPriceTypeDef,
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
    filters = [{"Name": f"tag:{CLUSTER}", "Values": [selection.name]}] if selection.name else []
    return [*filters, {"Name": f"tag:{OWNER}", "Values": [selection.owner]}]


def instances(region: Region, filters: Filters) -> tuple[InstanceTypeDef, ...]:
    """List instances in any state.

    Filters ignore ids that Amazon does not know yet; ids as parameters would fail the whole call.
    """
    reservations: tuple[ReservationTypeDef, ...] = region.all(
        "describe_instances", "Reservations", Filters=filters, MaxResults=1000
    )
    return tuple(i for r in reservations for i in r.get("Instances", ()))


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
        is_reclaimed=any(mark in code for mark in TAKEN),
    )


def price(region: Region, instance: str, zone: str, *, spot: bool) -> Price | None:
    """Read the price of one instance for an hour; none if it cannot be read."""
    try:
        return _spot(region, instance, zone) if spot else _on_demand(region, instance)
    except (Failure, ValueError, LookupError, TypeError, AttributeError):  # or it has another form
        return None


def _on_demand(region: Region, instance: str) -> Price | None:
    terms = {
        "instanceType": instance,
        "regionCode": region.name,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }
    filters = [{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in terms.items()]
    answer = region.call(
        "get_products", "PriceList", service="pricing", ServiceCode="AmazonEC2", Filters=filters
    )
    for text in answer["PriceList"]:
        for term in json.loads(text)["terms"].get("OnDemand", {}).values():
            for dimension in term["priceDimensions"].values():
                hourly = float(dimension["pricePerUnit"].get("USD") or 0)
                if hourly > 0:
                    day = datetime.fromisoformat(term["effectiveDate"]).date().isoformat()
                    return Price(hourly=hourly, at=day, source="AWS Pricing, on demand")
    return None


def _spot(region: Region, instance: str, zone: str) -> Price | None:
    answer = region.call(
        "describe_spot_price_history",
        "SpotPriceHistory",
        InstanceTypes=[instance],
        ProductDescriptions=["Linux/UNIX"],
        AvailabilityZone=zone,
        MaxResults=10,
    )
    prices: list[SpotPriceTypeDef] = answer["SpotPriceHistory"]
    if not prices:
        return None
    newest = max(prices, key=lambda price_: price_["Timestamp"])
    return Price(
        hourly=float(newest["SpotPrice"]),
        at=newest["Timestamp"].date().isoformat(),
        source=f"spot price in {zone}",
    )
