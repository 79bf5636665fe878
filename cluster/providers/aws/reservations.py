"""Capacity reservations and Capacity Blocks of Amazon.

EC2 user guide, "Capacity Blocks for ML": Amazon terminates the instances of a block from 30 minutes
before its end (UltraServers, which are P6e-GB200 and Trn2: 60). A reservation does not say that it
is of an UltraServer, but its instances are of types that nothing else has (EC2 instance types
guide, accelerated computing; AWS Neuron documentation, "Trn2 architecture").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.errors import SpecError
from cluster.core.units import format_seconds
from cluster.providers._cloud.reservations import Reservation, choose_named, remaining

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import CapacityReservationTypeDef, ImageTypeDef

    from cluster.core.model.spec import ClusterSpec
    from cluster.providers.aws.api import Region
    from cluster.providers.aws.options import AwsOptions

BLOCK = "capacity-block"
SHARED = "default"  # tenancy
BEFORE_END, ULTRA_BEFORE_END = 1800.0, 3600.0  # seconds
ULTRASERVERS = ("p6e-gb", "trn2u.")  # how the types of their instances begin


def list_reservations(region: Region) -> tuple[Reservation, ...]:
    listed = region.all("describe_capacity_reservations", "CapacityReservations")
    return tuple(map(_reservation, listed))


def _reservation(row: CapacityReservationTypeDef) -> Reservation:
    return Reservation(
        id=row["CapacityReservationId"],
        instance=row.get("InstanceType", ""),
        zone=row.get("AvailabilityZone", ""),
        state=row.get("State", ""),
        free=row.get("AvailableInstanceCount", 0),
        total=row.get("TotalInstanceCount", 0),
        is_block=row.get("ReservationType") == BLOCK,
        platform=row.get("InstancePlatform", ""),
        tenancy=row.get("Tenancy", SHARED),
        start=row["StartDate"].timestamp() if "StartDate" in row else None,
        end=row["EndDate"].timestamp() if "EndDate" in row else None,
    )


def choose(region: Region, spec: ClusterSpec, options: AwsOptions) -> Reservation | None:
    """Return the reservation that the options name, or refuse it before anything is made."""
    id_ = options.reservation or options.block
    if not id_:
        return None
    if options.reservation and options.block:
        raise SpecError(
            "A launch takes a reservation or a block, not both.",
            remedy="Leave --option reservation= or --option block= out.",
        )
    listed = list_reservations(region)
    chosen = choose_named(id_, listed, spec, spec.instance or "", region.now())
    if chosen.is_block != bool(options.block):
        raise SpecError(
            f"{id_} is a {'Capacity Block' if chosen.is_block else 'capacity reservation'}.",
            remedy=f"Use --option {chosen.option}",
        )
    if chosen.tenancy != SHARED:
        raise SpecError(
            f"{id_} is of {chosen.tenancy} tenancy, and machines of a launch share their hardware.",
            remedy="Use another reservation, of default tenancy.",
        )
    return chosen


def check_platform(chosen: Reservation | None, image: ImageTypeDef) -> None:
    """Refuse an image of another platform, as Amazon does (SpecError).

    Source: EC2 user guide, "Launch instances into an existing Capacity Reservation".
    """
    own = image.get("PlatformDetails")
    if chosen and own and chosen.platform not in ("", own):
        raise SpecError(
            f"{chosen.id} is of {chosen.platform}, and the image {image['ImageId']} is of {own}.",
            remedy=f"Use an --image of {chosen.platform}, or a reservation of {own}.",
        )


def block_end(chosen: Reservation, now: float) -> float | None:
    """Return after how many seconds Amazon begins to end the machines, as `remaining` does."""
    ultra = chosen.instance.startswith(ULTRASERVERS)
    margin = ULTRA_BEFORE_END if ultra else BEFORE_END
    return remaining(chosen, now, margin) if chosen.is_block else None


def end_line(chosen: Reservation, ttl: float) -> str:
    return (
        f"ends by itself {format_seconds(ttl)} after its start at the latest: Amazon ends the "
        f"machines of {chosen.id} before the block does"
    )
