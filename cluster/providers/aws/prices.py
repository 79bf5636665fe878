"""The hourly price of an instance; if it cannot be read it is unknown, and never estimated."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

from cluster.core.model.resources import Price
from cluster.providers._cloud.api_errors import Failure

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import SpotPriceTypeDef

    from cluster.providers.aws.api import Region


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
