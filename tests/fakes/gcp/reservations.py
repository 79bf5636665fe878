"""Reservations: how much is left of each, and what Google refuses of machines that name one.

The texts are those that cluster-autoscaler's client of Compute Engine looks for
(cloudprovider/gce/autoscaling_gce_client.go), and of skypilot#3327; skypilot#9779: a dense
reservation is refused to machines that are not bound to it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.fakes.gaps import GapError
from tests.fakes.gcp.catalog import PROJECT
from tests.fakes.gcp.errors import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fakes.gcp.cloud import Cloud
    from tests.fakes.gcp.values import Reserved

KEY = "compute.googleapis.com/reservation-name"
FIELD = "instanceProperties.reservationAffinity"


def put(cloud: Cloud) -> None:
    """Let the reservations of the settings exist."""
    for reservation in cloud.settings.reservations:
        path = f"projects/{PROJECT}/zones/{reservation.zone}/reservations/{reservation.name}"
        cloud.resources[path] = _resource(reservation)


def _resource(reservation: Reserved) -> dict[str, Any]:
    ends = datetime.now(UTC) + timedelta(seconds=reservation.ends or 0.0)
    return {
        "kind": "compute#reservation",
        "name": reservation.name,
        "zone": f"projects/{PROJECT}/zones/{reservation.zone}",
        "status": reservation.status,
        "specificReservationRequired": reservation.specific,
        "specificReservation": {
            "count": str(reservation.count),
            "instanceProperties": {"machineType": reservation.instance},
        },
        **({"deploymentType": "DENSE"} if reservation.dense else {}),
        **({"deleteAtTime": ends.isoformat()} if reservation.ends is not None else {}),
    }


def render(cloud: Cloud, resource: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reservation as it is answered: with how much of it is in use."""
    reserved = {
        **resource["specificReservation"],
        "inUseCount": str(_used(cloud, resource["name"])),
    }
    return {"selfLink": "", **resource, "specificReservation": reserved}


def _used(cloud: Cloud, name: str) -> int:
    affinities = (life.instance.get("reservationAffinity", {}) for life in cloud.lives.values())
    return sum(name in affinity.get("values", ()) for affinity in affinities)


def check(cloud: Cloud, zone: str, properties: Mapping[str, Any], count: int) -> None:
    """Refuse machines that do not fit the reservation that they name."""
    affinity = properties.get("reservationAffinity")
    model = properties.get("scheduling", {}).get("provisioningModel", "STANDARD")
    if affinity == {"consumeReservationType": "NO_RESERVATION"}:
        return
    if affinity is None:
        if model == "RESERVATION_BOUND":
            raise invalid(FIELD, "", "An instance must use ReservationAffinity of SPECIFIC.")
        return
    if affinity.get("consumeReservationType") != "SPECIFIC_RESERVATION" or (
        affinity.get("key") != KEY or len(affinity.get("values", ())) != 1
    ):
        raise GapError(f"an affinity like {affinity}")
    [name] = affinity["values"]
    reservation = cloud.resources.get(f"projects/{PROJECT}/zones/{zone}/reservations/{name}")
    why = _refusal(reservation, properties, model)
    if (
        not why
        and reservation
        and int(reservation["specificReservation"]["count"]) - _used(cloud, name) < count
    ):
        why = f"Reservation {name} does not have sufficient capacity for the requested resources."
    if why:
        raise invalid(FIELD, affinity, why)


def _refusal(
    reservation: Mapping[str, Any] | None, properties: Mapping[str, Any], model: str
) -> str:
    if reservation is None:
        return "Could not find the given reservation with the following name."
    name, reserved = reservation["name"], reservation["specificReservation"]["instanceProperties"]
    needed = "RESERVATION_BOUND" if reservation.get("deploymentType") == "DENSE" else "STANDARD"
    refusals = {
        f"{name}: it requires reservation to be in READY state.": reservation["status"] != "READY",
        f"Specified reservations [{name}] can not be targeted as specificReservationRequired is "
        "not set": not reservation["specificReservationRequired"],
        f"Reservation {name} is incorrect for the requested resources.": (
            reserved["machineType"] != properties["machineType"]
        ),
        f"The provisioning model {model} does not fit the reservation {name}.": model != needed,
        f"Reservation {name} has another resource policy.": bool(
            properties.get("resourcePolicies")
        ),
    }
    return next((why for why, holds in refusals.items() if holds), "")
