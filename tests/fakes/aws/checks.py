"""What Amazon checks of a launch before it looks for room; moto checks none of it."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from tests.fakes import userdata
from tests.fakes.aws.errors import refused
from tests.fakes.aws.reservations import ReservationCalls

USER_DATA = 16 * 1024  # bytes, before base64


class Checks(ReservationCalls):
    """Does everything exist, and does it fit together?"""

    def _check_kind(self) -> dict[str, Any]:
        least, most = int(self.params["MinCount"]), int(self.params["MaxCount"])
        if not 1 <= least <= most:
            raise refused(
                "InvalidParameterValue",
                f"Invalid value '{least}' for parameter minCount/maxCount ({most}).",
            )
        name = self.params["InstanceType"]
        for kind in self.ec2_backend.describe_instance_types([]):
            if kind["InstanceType"] == name and self._offering(name):
                return dict(kind)
        raise refused("InvalidInstanceType", f"Invalid value '{name}' for InstanceType.")

    def _check_image(self, kind: dict[str, Any]) -> None:
        image = self.params["ImageId"]
        if not image.startswith("ami-"):
            raise refused("InvalidAMIID.Malformed", f'Invalid id: "{image}" (expecting "ami-...")')
        if image not in self.ec2_backend.amis:
            raise refused("InvalidAMIID.NotFound", f"The image id '[{image}]' does not exist")
        architecture = self.ec2_backend.amis[image].architecture
        supported = kind["ProcessorInfo"]["SupportedArchitectures"]
        if architecture not in supported:
            raise refused(
                "InvalidParameterValue",
                f"The architecture '{','.join(supported)}' of the specified instance type does not "
                f"match the architecture '{architecture}' of the specified AMI. Specify an "
                "instance type and an AMI that have matching architectures, and try again. You can "
                "use 'describe-instance-types' or 'describe-images' to discover the architecture "
                "of the instance type or AMI.",
            )

    def _check_keys(self) -> None:
        key = self.params.get("KeyName")
        if key is not None and key not in self.ec2_backend.key_pairs:
            raise refused("InvalidKeyPair.NotFound", f"The key pair '{key}' does not exist")

    def _check_user_data(self) -> None:
        data = str(self.params.get("UserData", ""))
        try:
            size = len(base64.b64decode(data, validate=True))
        except binascii.Error:
            raise refused("InvalidUserData.Malformed", "Invalid BASE64 of user data.") from None
        if size > USER_DATA:
            raise refused("InvalidParameterValue", "User data is limited to 16384 bytes")
        userdata.orders(data)

    def _check_interfaces(self, kind: dict[str, Any]) -> list[dict[str, Any]]:
        """Check the network interfaces against the type's network cards."""
        nics: list[dict[str, Any]] = self.params.get("NetworkInterfaces", [])
        if nics and {"SubnetId", "SecurityGroupIds"} & set(self.params):
            raise refused(
                "InvalidParameterCombination",
                "Network interfaces and an instance-level subnet ID or security groups may not be "
                "specified on the same request",
            )
        if len(nics) > 1 and any("AssociatePublicIpAddress" in nic for nic in nics):
            raise refused(
                "InvalidParameterCombination",
                "The associatePublicIPAddress parameter cannot be specified when launching with "
                "multiple network interfaces.",
            )
        network = kind["NetworkInfo"]
        _check_cards(nics, network["NetworkCards"], kind["InstanceType"])
        efa = [nic for nic in nics if nic.get("InterfaceType", "interface") != "interface"]
        most = network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
        if len(efa) > most:
            raise refused(
                "InvalidParameterCombination",
                f"The instance type {kind['InstanceType']} supports {most} EFA interfaces; "
                f"{len(efa)} were requested.",
            )
        return nics

    def _check_processors(self, kind: dict[str, Any]) -> None:
        options = self.params.get("CpuOptions")
        if options is None:
            return
        info = kind["VCpuInfo"]
        cores, threads = options.get("CoreCount"), options.get("ThreadsPerCore")
        if cores is None or threads is None:
            raise refused(
                "InvalidParameterCombination",
                "CoreCount and ThreadsPerCore must both be specified in CpuOptions.",
            )
        valid = info.get("ValidThreadsPerCore", [info["DefaultThreadsPerCore"]])
        if cores not in info.get("ValidCores", [info["DefaultCores"]]) or threads not in valid:
            raise refused(
                "InvalidParameterValue",
                f"CpuOptions {cores} x {threads} are not supported by {kind['InstanceType']}.",
            )

    def _place(self, kind: dict[str, Any], nics: list[dict[str, Any]]) -> str:
        """Choose the subnet, check it, and give its zone."""
        placement = self.params.setdefault("Placement", {})
        subnet_ids = [nic["SubnetId"] for nic in nics if "SubnetId" in nic]
        subnet_ids += [self.params["SubnetId"]] if "SubnetId" in self.params else []
        subnet = self._subnet(subnet_ids[0]) if subnet_ids else self._default_subnet(kind)
        zone = str(subnet.availability_zone)
        if placement.get("AvailabilityZone", zone) != zone:
            raise refused(
                "InvalidParameterValue",
                f"The availability zone {placement['AvailabilityZone']} is not that of "
                f"{subnet.id}: {zone}",
            )
        offering = self._offering(kind["InstanceType"])
        if zone not in offering:
            raise refused(
                "Unsupported",
                f"Your requested instance type ({kind['InstanceType']}) is not supported in your "
                f"requested Availability Zone ({zone}). Please retry your request by not "
                f"specifying an Availability Zone or choosing {', '.join(offering)}.",
            )
        self._check_security(subnet, nics)
        for nic in nics:
            nic.setdefault("SubnetId", subnet.id)
        if not nics:
            self.params["SubnetId"] = subnet.id
        return zone

    def _default_subnet(self, kind: dict[str, Any]) -> Any:
        subnets = self.ec2_backend.get_default_subnets()
        if self.ec2_backend.get_default_vpc() is None:
            raise refused("VPCIdNotSpecified", "No default VPC for this user")
        zone = self.params["Placement"].get("AvailabilityZone")
        if zone is None:
            offering = [z for z in self._offering(kind["InstanceType"]) if z in subnets]
            least = int(self.params["MinCount"])
            room = [z for z in offering if self._room(kind, z) >= least]
            zone = (room or offering)[0]
        if zone not in subnets:
            zone_names = {z.name for z in self.ec2_backend.describe_availability_zones()}
            if zone not in zone_names:
                raise refused("InvalidParameterValue", f"Invalid availability zone: [{zone}]")
            raise refused("MissingInput", f"No default subnet for availability zone: '{zone}'.")
        return subnets[zone]

    def _check_security(self, subnet: Any, nics: Sequence[dict[str, Any]]) -> None:
        """Check the security groups: they exist, and are of the subnet's VPC."""
        ids = [id_ for nic in nics for id_ in nic.get("Groups", [])]
        for id_ in [*ids, *self.params.get("SecurityGroupIds", [])]:
            group = self.ec2_backend.get_security_group_from_id(id_)
            if group is None:
                raise refused("InvalidGroup.NotFound", f"The security group '{id_}' does not exist")
            if group.vpc_id != subnet.vpc_id:
                raise refused(
                    "InvalidParameter",
                    f"Security group {id_} and subnet {subnet.id} belong to different networks.",
                )

    def _check_group(self, kind: dict[str, Any], zone: str) -> None:
        """Check the placement group: it exists, the type may be in it, and it is in this zone."""
        name = self.params["Placement"].get("GroupName")
        if not name:
            return
        if name not in self.place.groups:
            raise refused(
                "InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown."
            )
        strategy = self.place.groups[name].strategy
        if strategy not in kind.get("PlacementGroupInfo", {}).get("SupportedStrategies", []):
            raise refused(
                "InvalidParameterCombination",
                f"{strategy.capitalize()} placement groups are not supported by the "
                f"'{kind['InstanceType']}' instance type. Specify a supported instance type or "
                "change the placement group strategy, and try again.",
            )
        used_zones = {
            str(life.instance.availability_zone)
            for life in self.place.alive()
            if life.instance.placement.group_name == name
        }
        if strategy == "cluster" and used_zones - {zone}:
            raise refused(
                "InvalidPlacementGroup.InUse",
                f"The placement group '{name}' is already used in a separate zone.",
            )


def _check_cards(
    nics: Sequence[dict[str, Any]], cards: Sequence[dict[str, Any]], instance: str
) -> None:
    """Check each interface against its card (EC2 user guide, network cards and efa-only)."""
    cards_by_index = {card["NetworkCardIndex"]: card for card in cards}
    places: set[tuple[int, int]] = set()
    for nic in nics:
        card, device = nic.get("NetworkCardIndex", 0), nic.get("DeviceIndex")
        if device is None or (card, device) in places or card not in cards_by_index:
            raise refused(
                "InvalidParameterValue",
                f"Invalid network card and device index {(card, device)}: each interface needs its "
                f"own, and there are {len(cards)} cards.",
            )
        places.add((card, device))
        kind, limit = (
            nic.get("InterfaceType", "interface"),
            cards_by_index[card]["MaximumNetworkInterfaces"],
        )
        if (
            kind not in cards_by_index[card]["InterfaceTypes"]
            or sum(c == card for c, _ in places) > limit
        ):
            raise refused(
                "InvalidParameterCombination",
                f"Network card {card} of {instance} takes at most {limit} interface(s), of the "
                f"types {', '.join(cards_by_index[card]['InterfaceTypes'])}.",
            )
        if kind == "efa-only" and (card, device) == (0, 0):
            raise refused(
                "InvalidParameterCombination",
                "An EFA-only network interface cannot be the primary network interface.",
            )
    if nics and (0, 0) not in places:
        raise refused(
            "InvalidParameterCombination",
            "A primary network interface, of card 0 and device index 0, is required.",
        )
