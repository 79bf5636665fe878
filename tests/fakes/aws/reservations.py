"""Capacity reservations, which moto knows in launch templates only (EC2 API reference, errors)."""

from datetime import UTC, datetime, timedelta
from typing import Any

from moto.core.responses import ActionResult

from tests.fakes.aws.capacity import Room
from tests.fakes.aws.errors import refused
from tests.fakes.aws.values import Reserved


class ReservationCalls(Room):
    """What is reserved, and what a launch into it needs."""

    def describe_capacity_reservations(self) -> ActionResult:
        ids = self.params.get("CapacityReservationIds")
        types = [
            f["Values"] for f in self.params.get("Filters", ()) if f["Name"] == "instance-type"
        ]
        rows = [
            self._row(reservation)
            for reservation in self.cloud.settings.reservations
            if reservation.zone.startswith(self.region)
            and (ids is None or reservation.id in ids)
            and all(reservation.instance in values for values in types)
        ]
        return ActionResult({"CapacityReservations": rows})

    def get_spot_placement_scores(self) -> ActionResult:
        if not 1 <= int(self.params["TargetCapacity"]) <= 2_000_000_000:
            raise refused("InvalidParameterValue", "The target capacity is out of range.")
        rows = [
            {"Region": self.region, "AvailabilityZoneId": zone, "Score": score}
            for zone, score in self.cloud.settings.scores.items()
            if zone[:-1] in self.params["RegionNames"] and self.params["SingleAvailabilityZone"]
        ]
        return ActionResult({"SpotPlacementScores": rows})

    def _row(self, reservation: Reserved) -> dict[str, Any]:
        now = datetime.now(UTC)
        return {
            "CapacityReservationId": reservation.id,
            "InstanceType": reservation.instance,
            "InstancePlatform": reservation.platform,
            "AvailabilityZone": reservation.zone,
            "Tenancy": reservation.tenancy,
            "TotalInstanceCount": reservation.total,
            "AvailableInstanceCount": self._free(reservation),
            "State": reservation.state,
            "StartDate": now + timedelta(seconds=reservation.start),
            "EndDate": None
            if reservation.end is None
            else now + timedelta(seconds=reservation.end),
            "EndDateType": "unlimited" if reservation.end is None else "limited",
            "InstanceMatchCriteria": "targeted",
            "ReservationType": "capacity-block" if reservation.block else "default",
        }

    def _free(self, reservation: Reserved) -> int:
        final_states = ("shutting-down", "terminated")
        used = [
            id_
            for id_, target in self.place.reserved.items()
            if target == reservation.id and self.place.lives[id_].state not in final_states
        ]
        return reservation.total - len(used)

    def _check_reservation(self, kind: dict[str, Any], zone: str) -> None:
        spec = self.params.get("CapacityReservationSpecification")
        market = self.params.get("InstanceMarketOptions", {}).get("MarketType")
        if spec is None:
            if market == "capacity-block":
                raise refused(
                    "InvalidParameterCombination",
                    "The capacity-block market type needs a Capacity Block to be targeted.",
                )
            return
        reservation = self._target(spec["CapacityReservationTarget"]["CapacityReservationId"])
        target = reservation.id
        if reservation.state != "active":
            raise refused(
                "InvalidCapacityReservationState",
                f"The capacity reservation {target} is in the state {reservation.state}.",
            )
        if reservation.block != (market == "capacity-block") or market == "spot":
            raise refused(
                "InvalidParameterCombination",
                f"The market type {market} does not fit the capacity reservation {target}.",
            )
        image = self.ec2_backend.amis[self.params["ImageId"]]
        needs = (kind["InstanceType"], zone, image.platform_details, "default")
        if (
            reservation.instance,
            reservation.zone,
            reservation.platform,
            reservation.tenancy,
        ) != needs:
            raise refused(
                "InvalidParameterValue",
                f"The capacity reservation {target} is of {reservation.instance} in "
                f"{reservation.zone}.",
            )
        if self.params.get("Placement", {}).get("GroupName"):
            raise refused(
                "UnsupportedOperation",
                f"The capacity reservation {target} is not in the placement group.",
            )
        if self._free(reservation) < int(self.params["MinCount"]):
            raise refused(
                "ReservationCapacityExceeded",
                f"The requested instance count exceeds what is available in {target}.",
            )

    def _target(self, id_: str) -> Reserved:
        for reservation in self.cloud.settings.reservations:
            if reservation.id == id_:
                return reservation
        raise refused(
            "InvalidCapacityReservationId.NotFound",
            f"The capacity reservation '{id_}' does not exist",
        )
