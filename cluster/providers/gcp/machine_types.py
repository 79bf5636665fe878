"""Machine types: properties that Google's API does not give, and prices: never estimated.

Sources: cloud.google.com/compute/docs/general-purpose-machines, compute-optimized-machines,
network-bandwidth, instances/placement-policies-overview. Google's catalog has no prices of machine
types, only of a core and a GiB of memory of each family, and of accelerators
(cloud.google.com/billing/docs/reference/rest/v1/services.skus).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cluster.core.errors import SpecError
from cluster.core.model.hosts import Link
from cluster.core.model.resources import Price
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value
from cluster.providers._cloud.api_errors import Failure

if TYPE_CHECKING:
    from google.cloud.compute_v1.types.compute import MachineType

    from cluster.providers.gcp.api import Project

GBIT = 1e9 / 8  # bytes per second
NOT_COMPACT = ("e2", "f1", "g1", "m1", "m2", "m3", "n1", "t2a", "t2d")
COMPACT = ("c2-standard-60", "c3-standard-176", "n2-standard-80", "h3-standard-88")
TIER_1 = ("n2", "n2d", "c2", "c2d", "c3", "c3d", "m3", "z3")
FIXED = ("h3", "h4d")  # families without live migration
FEWEST_FOR_TIER_1 = 30  # vCPUs
HYPERDISK = re.compile(  # types that boot only from it
    r"(a3-ultragpu|a4x?|c4[adn]?|g4|h4d|m4n?|n4[ad]?|x[45]|z4d)-.*"
)


class EgressRate(Value, frozen=True, kw_only=True):
    """The maximum egress bandwidth of machine types within their network, in Gbit/s."""

    types: str  # a regular expression for their names
    usual: float  # without Tier_1 networking
    tier_1: float = 0  # with Tier_1 networking; 0 if the types do not have it


RATES = (
    EgressRate(types=r"n2-standard-16", usual=32),
    EgressRate(types=r"n2-standard-(32|48)", usual=32, tier_1=50),
    EgressRate(types=r"n2-standard-64", usual=32, tier_1=75),
    EgressRate(types=r"n2-standard-(80|96|128)", usual=32, tier_1=100),
    EgressRate(types=r"n2d-standard-(96|128|224)", usual=32, tier_1=100),
    EgressRate(types=r"c2-standard-60", usual=32, tier_1=100),
    EgressRate(types=r"c3-standard-44", usual=32, tier_1=50),
    EgressRate(types=r"c3-standard-88", usual=62, tier_1=100),
    EgressRate(types=r"c3-standard-176", usual=100, tier_1=200),
    EgressRate(types=r"h3-standard-88", usual=200),
)


def family(instance: str) -> str:
    return instance.partition("-")[0]


def has_tier_1(instance: str, cpus: int) -> bool:
    return family(instance) in TIER_1 and cpus >= FEWEST_FOR_TIER_1


def disk_type(instance: str) -> str:
    return "hyperdisk-balanced" if HYPERDISK.fullmatch(instance) else "pd-balanced"


def link_of(instance: str, mtu: int, *, tier_1: bool) -> Link | None:
    """Return the link of a machine type in a network of an MTU; none if no figure is known."""
    for rate in RATES:
        if re.fullmatch(rate.types, instance):
            gbit = (tier_1 and rate.tier_1) or rate.usual
            return Link(rate=gbit * GBIT, mtu=mtu, source="Google's documentation of machine types")
    return None


WANTED = re.compile(r"([a-z0-9-]+)(?::(\d{1,2}))?")


class Accelerator(Value, frozen=True, kw_only=True):
    type: str  # Google's name for it
    sku: str = ""  # in the price list; empty if that has no part of its own for it
    quota: str  # in the names of quotas
    # by number of accelerators, the machine type that has them or gets them attached
    machines: dict[int, str]
    is_attached: bool = False  # it is attached to a machine type that does not include it
    retirement: str = ""  # the day on which Google retired it; empty if it still exists


KNOWN = msgspec.toml.decode(
    Path(__file__).with_name("accelerators.toml").read_text(), type=dict[str, Accelerator]
)
BY_TYPE = {accelerator.type: accelerator for accelerator in KNOWN.values()}


class RequestedAccelerators(Value, frozen=True, kw_only=True):
    kind: Accelerator  # of accelerator
    count: int  # how many each machine has

    @property
    def machine(self) -> str:
        return self.kind.machines[self.count]


def requested_accelerators(
    spec: ClusterSpec, *, allow_retired: bool
) -> RequestedAccelerators | None:
    """Return the accelerators that a spec requests per machine, or None (SpecError: none such)."""
    if not spec.accelerator:
        return None
    match = WANTED.fullmatch(spec.accelerator.lower())
    kind = KNOWN.get(match[1]) if match else None
    if match is None or kind is None:
        names = ", ".join(name for name, accelerator in KNOWN.items() if not accelerator.retirement)
        raise SpecError(
            f"--accelerator {spec.accelerator} is not known.",
            remedy=f"Write a kind and how many of them: --accelerator t4:1; there are: {names}",
        )
    count = int(match[2] or 1)
    if kind.retirement and not allow_retired:
        zone = f" --zone {spec.zone}" if spec.zone else ""
        command = f"cluster up {spec.name} --provider gcp --hosts {spec.hosts}{zone} --accelerator"
        count_offered = min(count, max(KNOWN["t4"].machines))
        raise SpecError(
            f"Google retired the {match[1].upper()} on {kind.retirement}.",
            means="Nothing was requested. Instead: T4 on N1, which is the same shape; L4 on G2; "
            "A100 on A2, which can also be placed close together (--placement).",
            remedy=f"Type: {command} t4:{count_offered}\nA private cloud that still has them: "
            "--option allow_retired=1",
        )
    if count not in kind.machines:
        raise SpecError(
            f"No machine has {count} x {match[1]}.",
            remedy=f"Ask for {', '.join(map(str, kind.machines))} of them.",
        )
    return RequestedAccelerators(kind=kind, count=count)


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

    sku: str  # a pattern for its description in the catalog
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
    known_prices = [price_ for price_ in prices if price_]
    if len(known_prices) < len(prices):
        return None
    return Price(
        hourly=sum(hourly for hourly, _ in known_prices),
        at=max(since for _, since in known_prices).date().isoformat(),
        source=f"Cloud Billing catalog, {'spot' if spot else 'on demand'}",
    )


def _parts(kind: MachineType, gpus: tuple[str, int] | None) -> list[PricedPart]:
    family_ = family(kind.name)
    prefix = CALLED.get(family_, f"{family_.upper()} Instance")
    parts = [
        PricedPart(sku=f"{prefix} Core", count=kind.guest_cpus),
        PricedPart(sku=f"{prefix} Ram", count=kind.memory_mb / GIB),
    ]
    if gpus:
        kind_ = BY_TYPE.get(gpus[0])
        name = f"Nvidia {kind_.sku} GPU" if kind_ else gpus[0]
        parts.append(PricedPart(sku=name, count=gpus[1], gpu=True))
    return parts


def _catalog_price(
    part: PricedPart, skus: Iterable[dict[str, Any]], *, spot: bool
) -> tuple[float, datetime] | None:
    """Return what a part costs in an hour, and since when; none unless one entry matches."""
    before, after = ("", "")
    if spot:
        before, after = ("", " attached to Spot Preemptible VMs") if part.gpu else (SPARE, "")
    pattern = re.compile(rf"{before}{part.sku}{after} running in .*", re.IGNORECASE)
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
