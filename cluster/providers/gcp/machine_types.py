"""Properties of machine types that Google's API does not give: placement, bandwidth, disks.

Sources: cloud.google.com/compute/docs/general-purpose-machines, compute-optimized-machines,
network-bandwidth, instances/placement-policies-overview.
"""

import re

from cluster.core.model.hosts import Link
from cluster.core.model.value import Value

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
