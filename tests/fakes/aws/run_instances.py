"""RunInstances: everything that Amazon checks and moto does not."""

import copy
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models.elastic_network_interfaces import Attachment, NetworkInterface

from tests.fakes.aws.checks import Checks
from tests.fakes.aws.errors import refused
from tests.fakes.aws.region import Token

USER_DATA = 16 * 1024  # bytes, before base64
NOT_COMPARED = {"ClientToken", "DryRun"}


# moto shows interfaces of instances without their ids.
NetworkInterface.network_interface_id = property(lambda interface: interface.id)


class CardInterface(NetworkInterface):
    """A network interface on a network card: moto knows one card only."""

    card = 0

    @property
    def attachment(self) -> Attachment | None:
        attached = super().attachment
        if attached:
            attached.network_card_index = self.card
        return attached


class LaunchCalls(Checks):
    """Launches."""

    def run_instances(self) -> ActionResult:
        self.need("MinCount", "MaxCount", "ImageId", "InstanceType")
        params = {key: value for key, value in self.params.items() if key not in NOT_COMPARED}
        params = copy.deepcopy(params)
        if before := self._before(params):
            return ActionResult(before)
        kind = self._check_kind()
        self._check_image(kind)
        self._check_keys()
        self._check_user_data()
        nics = self._check_interfaces(kind)
        self._check_processors(kind)
        zone = self._place(kind, nics)
        self._check_group(kind, zone)
        self._check_reservation(kind, zone)
        self.error_on_dryrun()
        count = self._count(kind, zone, len(nics) or 1)
        reservation = self._launch(count, nics)
        if token := self.params.get("ClientToken"):
            self.place.tokens[token] = Token(params, reservation)
        return ActionResult(reservation)

    def _before(self, params: dict[str, Any]) -> Any:
        """Return what the same token made before."""
        token = self.place.tokens.get(self.params.get("ClientToken", ""))
        if token is None:
            return None
        if token.params != params:
            raise refused(
                "IdempotentParameterMismatch",
                "Arguments on this idempotent request are inconsistent with arguments used in "
                "previous request(s).",
            )
        if any(
            self.place.lives[instance.id].state == "terminated"
            for instance in token.reservation.instances
        ):
            raise refused(
                "IdempotentInstanceTerminated",
                "The instance of an earlier request with this client token has been terminated.",
            )
        return token.reservation

    def _launch(self, count: int, nics: list[dict[str, Any]]) -> Any:
        """Let moto make them, and mend what it drops."""
        cards = [(nic.get("DeviceIndex", 0), nic) for nic in copy.deepcopy(nics)]
        if nics:  # moto keeps one interface for each index
            numbered = [{**nic, "DeviceIndex": number} for number, nic in enumerate(nics)]
            self.params["NetworkInterfaces"] = numbered
        self.params["MinCount"] = count
        self.params["BlockDeviceMappings"] = self._volumes()
        market = self.params.pop("InstanceMarketOptions", {})
        reserved = self.params.pop("CapacityReservationSpecification", {})
        result: Any = super().run_instances()
        reservation = result.result
        target = reserved.get("CapacityReservationTarget", {}).get("CapacityReservationId", "")
        for instance in reservation.instances:
            self.place.reserved[instance.id] = target
            self._mend(instance, cards, market.get("MarketType"))
        self.place.launched([self.place.live(i) for i in reservation.instances])
        return reservation

    def _volumes(self) -> list[dict[str, Any]]:
        """Return the volumes that are asked for; of the root's, the image says the rest."""
        image = self.ec2_backend.amis[self.params["ImageId"]]
        volumes = {
            volume["DeviceName"]: volume for volume in copy.deepcopy(self._requested_volumes())
        }
        for volume in image.block_device_mappings:
            mapping = volumes.setdefault(volume["DeviceName"], {"DeviceName": volume["DeviceName"]})
            mapping["Ebs"] = {**volume["Ebs"], **mapping.get("Ebs", {})}
        return list(volumes.values())

    def _requested_volumes(self) -> list[dict[str, Any]]:
        volumes: list[dict[str, Any]] = self.params.get("BlockDeviceMappings", [])
        return volumes

    def _mend(
        self, instance: Any, cards: list[tuple[int, dict[str, Any]]], market: str | None
    ) -> None:
        kinds = self.ec2_backend.describe_instance_types([instance.instance_type])
        info = kinds[0]["VCpuInfo"]
        instance.cpu_options = {
            "CoreCount": info["DefaultCores"],
            "ThreadsPerCore": info["DefaultThreadsPerCore"],
            **self.params.get("CpuOptions", {}),
        }
        instance.lifecycle = market
        instance.spot_instance_request_id = f"sir-{instance.id[-8:]}" if market == "spot" else None
        instance.placement.group_name = self.params["Placement"].get("GroupName", "")
        for nic, (index, card) in zip(instance.nics.values(), cards, strict=False):
            nic.__class__ = CardInterface
            nic.device_index = index
            nic.card = card.get("NetworkCardIndex", 0)
            nic.interface_type = card.get("InterfaceType", "interface")
        tags = self.tags("network-interface")
        for nic in instance.nics.values():
            nic.delete_on_termination = True
            nic.add_tags(tags)
            if nic.public_ip:  # with several interfaces, Amazon gives none
                nic.public_ip = self.place.public_address() if len(instance.nics) == 1 else None
        if not instance.security_groups:
            instance.security_groups = list(instance.nics[0].group_set)
