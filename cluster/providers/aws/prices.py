"""The hourly price of an instance; if it cannot be read it is unknown, and never estimated."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from cluster.core import decoders
from cluster.core.model.resources import Price
from cluster.providers._cloud.api_errors import Failure

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import SpotPriceTypeDef

    from cluster.providers.aws.api import Region


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """An amount in a currency."""

    USD: str = ""


class Dimension(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One price within a term, such as dollars per hour."""

    unit: str = ""
    price_per_unit: Unit = Unit()


class Term(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The prices of one way to pay, from a day on."""

    effective_date: datetime
    price_dimensions: dict[str, Dimension]


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The ways to pay for a product; only those on demand are read."""

    on_demand: dict[str, Term] = msgspec.field(name="OnDemand", default_factory=dict)


class Product(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the price list."""

    terms: Terms


def price(region: Region, instance: str, zone: str, *, spot: bool) -> Price | None:
    """Read the price of one instance for an hour; none if it cannot be read."""
    try:
        return _spot(region, instance, zone) if spot else _on_demand(region, instance)
    except (Failure, msgspec.DecodeError, ValueError, KeyError):
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
    filters = [{"Type": "TERM_MATCH", "Field": key, "Value": terms[key]} for key in terms]
    answer = region.call(
        "get_products", "PriceList", service="pricing", ServiceCode="AmazonEC2", Filters=filters
    )
    for text in answer["PriceList"]:
        product = decoders.decode(text, Product)
        for term in product.terms.on_demand.values():
            for dimension in term.price_dimensions.values():
                hourly = float(dimension.price_per_unit.USD or 0)
                if hourly > 0:
                    day = term.effective_date.date().isoformat()
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
