"""Capacity reservations, which moto knows in launch templates only (EC2 API reference, errors)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from moto.core.responses import ActionResult

from tests.fakes.aws.capacity import Room
from tests.fakes.aws.errors import refused

if TYPE_CHECKING:
    from tests.fakes.aws.values import Reserved


class ReservationCalls(Room):
    """What is reserved, and what a launch into it needs."""

    def describe_capacity_reservations(self) -> ActionResult:
        wanted = self.params.get("CapacityReservationIds")
        types = [
            f["Values"] for f in self.params.get("Filters", ()) if f["Name"] == "instance-type"
        ]
        rows = [
            self._row(one)
            for one in self.cloud.settings.reservations
            if one.zone.startswith(self.region)
            and (wanted is None or one.id in wanted)
            and all(one.instance in values for values in types)
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

    def _row(self, one: Reserved) -> dict[str, Any]:
        now = datetime.now(UTC)
        return {
            "CapacityReservationId": one.id,
            "InstanceType": one.instance,
            "InstancePlatform": one.platform,
            "AvailabilityZone": one.zone,
            "Tenancy": one.tenancy,
            "TotalInstanceCount": one.total,
            "AvailableInstanceCount": self._free(one),
            "State": one.state,
            "StartDate": now + timedelta(seconds=one.start),
            "EndDate": None if one.end is None else now + timedelta(seconds=one.end),
            "EndDateType": "unlimited" if one.end is None else "limited",
            "InstanceMatchCriteria": "targeted",
            "ReservationType": "capacity-block" if one.block else "default",
        }

    def _free(self, one: Reserved) -> int:
        gone = ("shutting-down", "terminated")
        used = [
            id_
            for id_, target in self.here.reserved.items()
            if target == one.id and self.here.lives[id_].state not in gone
        ]
        return one.total - len(used)

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
        one = self._target(spec["CapacityReservationTarget"]["CapacityReservationId"])
        target = one.id
        if one.state != "active":
            raise refused(
                "InvalidCapacityReservationState",
                f"The capacity reservation {target} is in the state {one.state}.",
            )
        if one.block != (market == "capacity-block") or market == "spot":
            raise refused(
                "InvalidParameterCombination",
                f"The market type {market} does not fit the capacity reservation {target}.",
            )
        image = self.ec2_backend.amis[self.params["ImageId"]]
        asked = (kind["InstanceType"], zone, image.platform_details, "default")
        if (one.instance, one.zone, one.platform, one.tenancy) != asked:
            raise refused(
                "InvalidParameterValue",
                f"The capacity reservation {target} is of {one.instance} in {one.zone}.",
            )
        if self.params.get("Placement", {}).get("GroupName"):
            raise refused(
                "UnsupportedOperation",
                f"The capacity reservation {target} is not in the placement group.",
            )
        if self._free(one) < int(self.params["MinCount"]):
            raise refused(
                "ReservationCapacityExceeded",
                f"The requested instance count exceeds what is available in {target}.",
            )

    def _target(self, id_: str) -> Reserved:
        for one in self.cloud.settings.reservations:
            if one.id == id_:
                return one
        raise refused(
            "InvalidCapacityReservationId.NotFound",
            f"The capacity reservation '{id_}' does not exist",
        )
