"""Capacity that is already paid for: used as it is, and never bought or made by us.

A launch names it. Type and zone must be its own, and it has a placement group of its own, or none
(EC2 user guide, "On-Demand Capacity Reservations"; Compute Engine, "Consume reservations").
"""

from collections.abc import Callable, Sequence

from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value
from cluster.core.text.units import format_seconds
from cluster.providers._cloud.api_errors import Failure
from cluster.providers._cloud.launch import Demand, zones_without_capacity

ACTIVE = "active"
LEAST = 600.0  # seconds that are worth a launch


class Reservation(Value, frozen=True, kw_only=True):
    id: str
    instance: str
    zone: str
    state: str
    free: int
    total: int
    is_block: bool = False  # at Amazon
    is_bound: bool = False  # at Google: its machines end with it, and must say so
    is_named: bool = True  # only launches that name it use it
    platform: str = ""  # at Amazon: the operating system, as it is billed
    tenancy: str = "default"
    start: float | None = None  # in seconds since the epoch, if that is to come
    end: float | None = None

    def demand(self, hosts: int) -> Demand:
        return Demand(
            what=f"instances of {self.id} in {self.zone}",
            count=hosts,
            free=self.free,
            remedy="Use fewer hosts, or end what runs there: cluster ls",
        )

    @property
    def option(self) -> str:
        return f"{'block' if self.is_block else 'reservation'}={self.id}"

    def line(self, now: float) -> str:
        end = f", ends in {format_seconds(max(0.0, self.end - now))}" if self.end else ""
        free = f"{self.free} of {self.total} free"
        return f"{self.option}: {self.instance} in {self.zone}, {self.state}, {free}{end}"


def choose_named(
    id_: str,
    reservations: Sequence[Reservation],
    spec: ClusterSpec,
    instance: str,
    now: float,
    zones: Sequence[str] = (),
) -> Reservation:
    """Return the reservation of an id, or refuse it before anything is made (SpecError).

    At Google several have one name, each in a zone: that which fits best, in `zones` if there is.
    """
    choice = max(
        (row for row in reservations if row.id == id_),
        key=lambda r: (r.zone in zones, r.state == ACTIVE, r.instance == instance, r.free),
        default=None,
    )
    if choice is None:
        lines = "\n".join(f"--option {reservation.line(now)}" for reservation in reservations)
        raise SpecError(
            f"There is no capacity reservation {id_!r}.",
            remedy=f"There are:\n{lines}" if lines else "There is none; look in another region.",
        )
    name = "block" if choice.is_block else "reservation"
    if spec.spot:
        raise SpecError(f"A {name} is paid for already, and not spot.", remedy="Leave --spot out.")
    if spec.placement:
        raise SpecError(
            f"Instances of a {name} cannot be put into a new placement group.",
            means="They are in the group of their reservation, if it has one.",
            remedy=f"Leave --placement out; which hosts are near: cluster check {spec.name} --near",
        )
    if choice.instance != instance:
        raise SpecError(
            f"{choice.id} is of {choice.instance}, and --instance is {instance}.",
            remedy=f"Use --instance {choice.instance}",
        )
    if choice.state != ACTIVE:
        start = max(0.0, choice.start - now) if choice.start else 0.0
        begins = f" It begins in {format_seconds(start)}." if start else ""
        raise SpecError(
            f"{choice.id} is {choice.state}.{begins}",
            means="Instances can be launched into an active one only.",
            remedy="Wait for it, or name another one: cluster up NAME --plan lists them.",
        )
    if choice.free < spec.hosts:
        raise SpecError(
            f"{choice.id} has {choice.free} of {choice.total} instances free; {spec.hosts} were "
            "asked for.",
            remedy=f"Use --hosts {choice.free}, or end what runs there."
            if choice.free
            else "End what runs there: cluster ls",
        )
    return choice


def remaining(reservation: Reservation | None, now: float, margin: float = 0.0) -> float | None:
    """Return after how many seconds the cloud begins to end the machines; None if it does not.

    SpecError: that is too soon to be of use. It begins `margin` seconds before the end.
    """
    if reservation is None or reservation.end is None:
        return None
    seconds = reservation.end - margin - now
    if seconds < LEAST:
        raise SpecError(
            f"{reservation.id} ends in {format_seconds(max(0.0, reservation.end - now))}.",
            means=f"The cloud ends its instances {format_seconds(margin)} before." * bool(margin),
            remedy="Choose another, or extend it.",
        )
    return seconds


def zones_to_try(zones: Sequence[str], instance: str, reservation: Reservation | None) -> list[str]:
    """Return the zones not recently out of capacity; only that of a reservation (SpecError)."""
    if reservation is None:
        full = zones_without_capacity(instance)
        return [zone for zone in zones if zone not in full] or list(zones)
    if reservation.zone not in zones:
        raise SpecError(
            f"{reservation.id} is in {reservation.zone}, and not in {', '.join(zones)}.",
            remedy=f"Use --zone {reservation.zone}",
        )
    return [reservation.zone]


def reservation_lines(
    read: Callable[[], Sequence[Reservation]],
    instance: str,
    now: float,
    permission: str,
    reservation: Reservation | None,
) -> list[str]:
    """Return the line of a plan about its reservation, or those of its type that it could use."""
    if reservation:
        return [reservation.line(now)]
    try:
        matches = [item for item in read() if item.instance == instance]
    except Failure as failure:
        if failure.kind != "denied":
            raise
        return [f"reservations: not known, as {permission} is not permitted"]
    rows = (item for item in matches if item.free and item.is_named)
    return [f"also paid for: --option {item.line(now)}" for item in rows]
