"""The hourly price of a machine; if it cannot be read it is unknown, and never estimated.

Google's catalog has no prices of machine types, only of a core and a GiB of memory of each family,
and of accelerators (cloud.google.com/billing/docs/reference/rest/v1/services.skus).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cluster.core.model.resources import Price
from cluster.core.model.value import Value
from cluster.providers._cloud.api_errors import Failure
from cluster.providers.gcp.accelerators import BY_TYPE
from cluster.providers.gcp.machine_types import family

if TYPE_CHECKING:
    from google.cloud.compute_v1.types.compute import MachineType

    from cluster.providers.gcp.api import Project

SPARE = "Spot Preemptible "
GIB = 1024  # MiB
NANO = 1e-9
CALLED = {  # patterns for families that the catalog does not call like `N2 Instance`
    "c2": "Compute optimized( Instance)?",  # with `Instance` in newer regions
    "c2d": "C2D AMD Instance",
    "n1": "N1 Predefined Instance",
    "n2d": "N2D AMD Instance",
    "t2a": "T2A Arm Instance",
    "t2d": "T2D AMD Instance",
}


class PricedPart(Value, frozen=True, kw_only=True):
    """A part of a machine that has its own price."""

    called: str  # a pattern for its description in the catalog
    count: float  # how many units the machine has: cores, GiB or accelerators
    gpu: bool = False  # whether it is an accelerator; their spot prices have other descriptions


def price(
    project: Project, kind: MachineType, region: str, gpus: tuple[str, int] | None, *, spot: bool
) -> Price | None:
    """Read the price of one machine for an hour; none if that of any part is not known."""
    usage = "Preemptible" if spot else "OnDemand"
    try:
        skus = [
            sku
            for sku in project.catalog()
            if region in sku.get("serviceRegions", ())
            and sku.get("category", {}).get("usageType") == usage
        ]
        prices = [_catalog_price(part, skus, spot=spot) for part in _parts(kind, gpus)]
    except (Failure, ValueError, LookupError, TypeError, AttributeError):  # or it has another form
        return None
    priced = [price_ for price_ in prices if price_]
    if len(priced) < len(prices):
        return None
    return Price(
        hourly=sum(hourly for hourly, _ in priced),
        at=max(since for _, since in priced).date().isoformat(),
        source=f"Cloud Billing catalog, {'spot' if spot else 'on demand'}",
    )


def _parts(kind: MachineType, gpus: tuple[str, int] | None) -> list[PricedPart]:
    family_ = family(kind.name)
    called = CALLED.get(family_, f"{family_.upper()} Instance")
    parts = [
        PricedPart(called=f"{called} Core", count=kind.guest_cpus),
        PricedPart(called=f"{called} Ram", count=kind.memory_mb / GIB),
    ]
    if gpus:
        kind_ = BY_TYPE.get(gpus[0])
        name = f"Nvidia {kind_.called} GPU" if kind_ else gpus[0]
        parts.append(PricedPart(called=name, count=gpus[1], gpu=True))
    return parts


def _catalog_price(
    part: PricedPart, skus: Iterable[dict[str, Any]], *, spot: bool
) -> tuple[float, datetime] | None:
    """Return what a part costs in an hour, and since when; none unless one entry matches."""
    before, after = ("", "")
    if spot:
        before, after = ("", " attached to Spot Preemptible VMs") if part.gpu else (SPARE, "")
    pattern = re.compile(rf"{before}{part.called}{after} running in .*", re.IGNORECASE)
    matches = []
    for sku in skus:
        if pattern.fullmatch(sku["description"]) and sku.get("pricingInfo"):
            pricing = sku["pricingInfo"][0]
            rates = pricing["pricingExpression"].get("tieredRates") or [{"unitPrice": {}}]
            unit = rates[-1]["unitPrice"]
            hourly = part.count * (int(unit.get("units", 0)) + unit.get("nanos", 0) * NANO)
            if hourly:
                matches.append((hourly, datetime.fromisoformat(pricing["effectiveTime"])))
    return matches[0] if len(matches) == 1 else None
