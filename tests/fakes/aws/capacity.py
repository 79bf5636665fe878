"""How much room there is: machines of a type in a zone, quotas, addresses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.fakes.aws.calls import Calls
from tests.fakes.aws.errors import refused

if TYPE_CHECKING:
    from tests.fakes.aws.region import Life

FAMILY = re.compile(r"[a-z]+")


class Room(Calls):
    """Is there enough of everything?"""

    def _offering(self, name: str) -> list[str]:
        """Return the zones that have a type."""
        offers = self.ec2_backend.describe_instance_type_offerings(
            "availability-zone", {"instance-type": [name]}
        )
        return sorted(offer["Location"] for offer in offers)

    def _room(self, kind: dict[str, Any], zone: str) -> int:
        """Tell how many more of a type a zone has."""
        name, capacity = kind["InstanceType"], self.cloud.settings.capacity
        free = capacity.get(f"{zone} {name}", capacity.get(zone, 1_000_000))
        running = sum(
            life.instance.availability_zone == zone and life.instance.instance_type == name
            for life in self.place.alive()
            if life.state not in ("stopping", "stopped")
        )
        return int(free - running)

    def _count(self, kind: dict[str, Any], zone: str, interfaces: int) -> int:
        """Decide how many come to be, or refuse them all."""
        least, most = int(self.params["MinCount"]), int(self.params["MaxCount"])
        self._check_quota(kind, least)
        room = self._room(kind, zone)
        if room < least:
            other_zones = [z for z in self._offering(kind["InstanceType"]) if z != zone]
            raise refused(
                "InsufficientInstanceCapacity",
                f"We currently do not have sufficient {kind['InstanceType']} capacity in the "
                f"Availability Zone you requested ({zone}). Our system will be working on "
                f"provisioning additional capacity. You can currently get {kind['InstanceType']} "
                "capacity by not specifying an Availability Zone in your request or choosing "
                f"{', '.join(other_zones)}.",
            )
        gives = self.cloud.settings.gives
        count = min(room, most, most if gives is None else gives)
        nics = self.params.get("NetworkInterfaces", [])
        subnet = self._subnet(nics[0]["SubnetId"] if nics else self.params["SubnetId"])
        if subnet.available_ip_address_count < count * interfaces:
            raise refused(
                "InsufficientFreeAddressesInSubnet",
                "There are not enough free addresses in subnet "
                f"'{subnet.id}' to satisfy the requested number of instances.",
            )
        return count

    def _check_quota(self, kind: dict[str, Any], least: int) -> None:
        """Refuse what is more than may run at once of this bucket of types."""
        market = self.params.get("InstanceMarketOptions", {}).get("MarketType")
        if market == "capacity-block":  # EC2 user guide: it counts towards no limit
            return
        bucket = (bucket_of(kind["InstanceType"]), market)
        running = sum(
            self.processors(life)
            for life in self.place.alive()
            if life.state != "stopped" and bucket == _bucket(life)
        )
        limit = self.cloud.settings.vcpus
        if running + least * kind["VCpuInfo"]["DefaultVCpus"] <= limit:
            return
        if market:
            raise refused("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
        raise refused(
            "VcpuLimitExceeded",
            f"You have requested more vCPU capacity than your current vCPU limit of {limit} allows "
            "for the instance bucket that the specified instance type belongs to. Please visit "
            "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.",
        )

    def processors(self, life: Life) -> int:
        """Tell how many virtual processors an instance's type has."""
        kinds = self.ec2_backend.describe_instance_types([life.instance.instance_type])
        return int(kinds[0]["VCpuInfo"]["DefaultVCpus"])

    def _subnet(self, subnet_id: str) -> Any:
        for subnet in self.ec2_backend.describe_subnets():
            if subnet.id == subnet_id:
                return subnet
        raise refused("InvalidSubnetID.NotFound", f"The subnet ID '{subnet_id}' does not exist")


def bucket_of(kind: str) -> str:
    """Tell which quota a type counts for, by the letters that its name begins with."""
    match = FAMILY.match(kind)
    family = match.group() if match else ""
    return {"g": "g", "gr": "g", "vt": "g", "p": "p", "hpc": "hpc"}.get(family, "standard")


def _bucket(life: Life) -> tuple[str, str | None]:
    return bucket_of(life.instance.instance_type), life.instance.lifecycle
