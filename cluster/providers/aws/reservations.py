"""Capacity that is already paid for: reservations and Capacity Blocks, used and never bought.

EC2 user guide, "On-Demand Capacity Reservations" and "Capacity Blocks for ML": a launch names one
by its id; type and zone must be its own. It has a placement group of its own, or none. Amazon
terminates the instances of a block from 30 minutes before its end (UltraServers: 60).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.errors import SpecError
from cluster.core.model.value import Value
from cluster.core.units import format_seconds
from cluster.providers._cloud.api_errors import Failure

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import CapacityReservationTypeDef

    from cluster.core.model.spec import ClusterSpec
    from cluster.providers.aws.api import Region
    from cluster.providers.aws.options import AwsOptions

BLOCK = "capacity-block"
BEFORE_END, ULTRA_BEFORE_END = 1800.0, 3600.0  # seconds
ULTRASERVER = "u-"
LEAST = 600.0  # seconds of a block that are worth a launch


class Reservation(Value, frozen=True, kw_only=True):
    """Instances that are reserved."""

    id: str
    instance: str
    zone: str
    state: str
    free: int
    total: int
    is_block: bool
    start: float | None = None  # in seconds since the epoch, if that is to come
    end: float | None = None

    def line(self, now: float) -> str:
        end = f", ends in {format_seconds(max(0.0, self.end - now))}" if self.end else ""
        kind = "block" if self.is_block else "reservation"
        free = f"{self.free} of {self.total} free"
        return f"{kind}={self.id}: {self.instance} in {self.zone}, {self.state}, {free}{end}"


def list_reservations(region: Region, instance: str = "") -> tuple[Reservation, ...]:
    """Return the reservations of the account in a region; of one type, if it is named."""
    filters = [{"Name": "instance-type", "Values": [instance]}] if instance else []
    listed = region.all("describe_capacity_reservations", "CapacityReservations", Filters=filters)
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
        start=row["StartDate"].timestamp() if "StartDate" in row else None,
        end=row["EndDate"].timestamp() if "EndDate" in row else None,
    )


def choose(region: Region, spec: ClusterSpec, options: AwsOptions) -> Reservation | None:
    """Return the reservation that the options name, or refuse it before anything is made."""
    id_ = options.reservation or options.block
    if not id_:
        return None
    _check_options(spec, options)
    reservations = list_reservations(region)
    chosen = next((reservation for reservation in reservations if reservation.id == id_), None)
    if chosen is None:
        listed = "\n".join(
            f"--option {reservation.line(region.now())}" for reservation in reservations
        )
        raise SpecError(
            f"There is no capacity reservation {id_!r} in {region.name}.",
            remedy=f"There are:\n{listed}"
            if reservations
            else "There is none; look in another region.",
        )
    if chosen.is_block != bool(options.block):
        kind = "block" if chosen.is_block else "reservation"
        raise SpecError(
            f"{id_} is a {'Capacity Block' if chosen.is_block else 'capacity reservation'}.",
            remedy=f"Use --option {kind}={id_}",
        )
    _check_fit(chosen, spec, region.now())
    return chosen


def _check_options(spec: ClusterSpec, options: AwsOptions) -> None:
    name = "reservation" if options.reservation else "block"
    if options.reservation and options.block:
        raise SpecError(
            "A launch takes a reservation or a block, not both.",
            remedy="Leave --option reservation= or --option block= out.",
        )
    if spec.spot:
        raise SpecError(f"A {name} is paid for already, and not spot.", remedy="Leave --spot out.")
    if spec.placement:
        raise SpecError(
            f"Instances of a {name} cannot be put into a new placement group.",
            means="They are in the group of their reservation, if it has one.",
            remedy=f"Leave --placement out; which hosts are near: cluster check {spec.name} --near",
        )


def _check_fit(chosen: Reservation, spec: ClusterSpec, now: float) -> None:
    if chosen.instance != spec.instance:
        raise SpecError(
            f"{chosen.id} is of {chosen.instance}, and --instance is {spec.instance}.",
            remedy=f"Use --instance {chosen.instance}",
        )
    if chosen.state != "active":
        start = max(0.0, chosen.start - now) if chosen.start else 0.0
        begins = f" It begins in {format_seconds(start)}." if start else ""
        raise SpecError(
            f"{chosen.id} is {chosen.state}.{begins}",
            means="Instances can be launched into an active one only.",
            remedy="Wait for it, or name another one: cluster up NAME --plan lists them.",
        )
    if chosen.free < spec.hosts:
        raise SpecError(
            f"{chosen.id} has {chosen.free} of {chosen.total} instances free; {spec.hosts} were "
            "asked for.",
            remedy=f"Use --hosts {chosen.free}, or end what runs there."
            if chosen.free
            else "End what runs there: cluster ls",
        )


def block_end(chosen: Reservation, now: float) -> float | None:
    """Return after how many seconds Amazon begins to end the machines; None if it does not.

    SpecError: that is too soon to be of use.
    """
    if not chosen.is_block or chosen.end is None:
        return None
    margin = ULTRA_BEFORE_END if chosen.instance.startswith(ULTRASERVER) else BEFORE_END
    remaining = chosen.end - margin - now
    if remaining < LEAST:
        raise SpecError(
            f"{chosen.id} ends in {format_seconds(max(0.0, chosen.end - now))}.",
            means=f"Amazon ends its instances {format_seconds(margin)} before.",
            remedy="Choose another block, or extend it.",
        )
    return remaining


def end_line(chosen: Reservation, ttl: float) -> str:
    return (
        f"ends by itself {format_seconds(ttl)} after its start at the latest: Amazon ends the "
        f"machines of {chosen.id} before the block does"
    )


def fitting_lines(region: Region, spec: ClusterSpec) -> list[str]:
    """Return the active reservations of the type that a plan does not use, for its reader."""
    try:
        reservations = list_reservations(region, spec.instance or "")
    except Failure as failure:
        if failure.kind != "denied":
            raise
        return ["reservations: not known, as ec2:DescribeCapacityReservations is not permitted"]
    return [f"also paid for: --option {r.line(region.now())}" for r in reservations if r.free]
