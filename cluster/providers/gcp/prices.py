"""The hourly price of a machine; if it cannot be read it is unknown, and never estimated.

Google's catalog has no prices of machine types, only of a core and a GiB of memory of each family,
and of accelerators (cloud.google.com/billing/docs/reference/rest/v1/services.skus).
"""

from __future__ import annotations

import re
from datetime import datetime  # noqa: TC003 - msgspec reads annotations
from typing import TYPE_CHECKING

from cluster.core.model.resources import Price
from cluster.core.model.value import Value
from cluster.providers._cloud.api_errors import Failure
from cluster.providers.gcp.machine_types import family
from cluster.providers.gcp.responses import GcpResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

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
GPUS = {
    "nvidia-tesla-t4": "Nvidia Tesla T4 GPU",
    "nvidia-tesla-v100": "Nvidia Tesla V100 GPU",
    "nvidia-tesla-k80": "Nvidia Tesla K80 GPU",
    "nvidia-l4": "Nvidia L4 GPU",
    "nvidia-tesla-a100": "Nvidia Tesla A100 GPU",
    "nvidia-h100-80gb": "Nvidia H100 80GB GPU",
}


class UnitPrice(GcpResponse, frozen=True, kw_only=True):
    """An amount of money: whole units of the currency, and billionths of a unit."""

    units: int = 0
    nanos: int = 0


class Tier(GcpResponse, frozen=True, kw_only=True):
    """A price that applies from some amount of usage on."""

    unit_price: UnitPrice = UnitPrice()


class Expression(GcpResponse, frozen=True, kw_only=True):
    """The prices of a SKU, by amount of usage."""

    tiered_rates: tuple[Tier, ...] = ()


class Pricing(GcpResponse, frozen=True, kw_only=True):
    """The prices of a SKU from a day on."""

    effective_time: datetime
    pricing_expression: Expression


class Category(GcpResponse, frozen=True, kw_only=True):
    """The category of a SKU, such as `OnDemand`."""

    usage_type: str = ""


class Sku(GcpResponse, frozen=True, kw_only=True):
    """An entry (SKU) of the catalog."""

    description: str
    category: Category = Category()
    service_regions: tuple[str, ...] = ()
    pricing_info: tuple[Pricing, ...] = ()

    @property
    def hourly(self) -> float:
        """US dollars for an hour of one unit, such as a core."""
        rates = self.pricing_info[0].pricing_expression.tiered_rates
        return rates[-1].unit_price.units + rates[-1].unit_price.nanos * NANO if rates else 0.0


class PricedPart(Value, frozen=True, kw_only=True):
    """A part of a machine that has its own price."""

    called: str  # a pattern for its description in the catalog
    count: float  # how many units the machine has: cores, GiB or accelerators
    gpu: bool = False  # whether it is an accelerator; their spot prices have other descriptions


def price(
    project: Project, kind: MachineType, region: str, gpus: tuple[str, int] | None, *, spot: bool
) -> Price | None:
    """Read the price of one machine for an hour; none if that of any part is not known."""
    try:
        catalog = project.catalog(Sku)
    except Failure:
        return None
    usage = "Preemptible" if spot else "OnDemand"
    regional = [
        s for s in catalog if region in s.service_regions and s.category.usage_type == usage
    ]
    parts = [(part, _catalog_entry(part, regional, spot=spot)) for part in _parts(kind, gpus)]
    skus = [(part, sku) for part, sku in parts if sku is not None]
    if not skus or len(skus) < len(parts):
        return None
    newest = max(sku.pricing_info[0].effective_time for _, sku in skus)
    return Price(
        hourly=sum(part.count * sku.hourly for part, sku in skus),
        at=newest.date().isoformat(),
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
        parts.append(PricedPart(called=GPUS.get(gpus[0], gpus[0]), count=gpus[1], gpu=True))
    return parts


def _catalog_entry(part: PricedPart, catalog: Iterable[Sku], *, spot: bool) -> Sku | None:
    """Find the catalog entry of a part; none unless exactly one entry matches."""
    before, after = ("", "")
    if spot:
        before, after = ("", " attached to Spot Preemptible VMs") if part.gpu else (SPARE, "")
    pattern = re.compile(rf"{before}{part.called}{after} running in .*", re.IGNORECASE)
    matches = [
        s for s in catalog if pattern.fullmatch(s.description) and s.pricing_info and s.hourly
    ]
    return matches[0] if len(matches) == 1 else None
