"""Reservations of Google, by their names.

Those for dense deployment own their machines, which must say so (Compute Engine, "About VMs that
use the reservation-bound model"; skypilot#9779). One that any launch may use cannot be named
(skypilot#3327).
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from cluster.core.errors import SpecError
from cluster.providers._cloud.reservations import ACTIVE, Reservation, choose_named

if TYPE_CHECKING:
    from google.cloud.compute_v1.types import compute

    from cluster.core.model.spec import ClusterSpec
    from cluster.providers.gcp.api import Project
    from cluster.providers.gcp.options import GcpOffer

KEY = "compute.googleapis.com/reservation-name"  # of the affinity to a reservation


def choose(
    project: Project, spec: ClusterSpec, name: str, instance: str, zones: tuple[str, ...]
) -> Reservation | None:
    """Return the reservation of a name, or refuse it before anything is made (SpecError)."""
    if not name:
        return None
    chosen = choose_named(name, list_reservations(project), spec, instance, project.now(), zones)
    if not chosen.is_named:
        raise SpecError(
            f"{name} cannot be named: every launch of its type and zone uses it.",
            remedy=f"Leave --option reservation out, and use --zone {chosen.zone}",
        )
    return chosen


def list_reservations(project: Project) -> tuple[Reservation, ...]:
    return tuple(map(_reservation, project.all("reservations")))


def affinity(offer: GcpOffer) -> dict[str, Any]:
    """Return what names the reservation in a description of machines; empty if there is none."""
    if offer.queue:
        return {"reservation_affinity": {"consume_reservation_type": "NO_RESERVATION"}}
    if not offer.reservation:
        return {}
    kind = {"consume_reservation_type": "SPECIFIC_RESERVATION"}
    return {"reservation_affinity": {**kind, "key": KEY, "values": [offer.reservation]}}


def _reservation(row: compute.Reservation) -> Reservation:
    reserved = row.specific_reservation
    return Reservation(
        id=row.name,
        instance=reserved.instance_properties.machine_type.rpartition("/")[2],
        zone=row.zone.rpartition("/")[2],
        state=ACTIVE if row.status == "READY" else row.status.lower(),
        free=reserved.count - reserved.in_use_count,
        total=reserved.count,
        is_bound=row.deployment_type == "DENSE",
        is_named=row.specific_reservation_required,
        end=datetime.fromisoformat(row.delete_at_time).timestamp() if row.delete_at_time else None,
    )
