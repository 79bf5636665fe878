"""Elastic IPs: few for an account, one for an interface, and none is released in use."""

import time
from typing import Any

from moto.core.responses import ActionResult

from tests.fakes.aws.calls import Calls
from tests.fakes.aws.errors import refused


class AddressCalls(Calls):
    """The calls of EC2 about Elastic IPs."""

    def allocate_address(self) -> ActionResult:
        addresses = self.ec2_backend.addresses
        if len(addresses) >= self.cloud.settings.elastic_ips:
            raise refused(
                "AddressLimitExceeded", "The maximum number of addresses has been reached."
            )
        allocation = self.ec2_backend.allocate_address(
            "vpc", address=self.place.public_address(), tags=self.tags("elastic-ip")
        )
        allocation.visible = time.monotonic() + self.cloud.settings.visible
        return ActionResult(
            {
                "PublicIp": allocation.public_ip,
                "Domain": "vpc",
                "AllocationId": allocation.allocation_id,
            }
        )

    def describe_addresses(self) -> ActionResult:
        self.error_on_dryrun()
        filters = {
            condition["Name"]: condition["Values"] for condition in self.params.get("Filters", ())
        }
        addresses = self.ec2_backend.describe_addresses(
            self.params.get("AllocationIds"), (), filters
        )
        return ActionResult({"Addresses": [address for address in addresses if _visible(address)]})

    def associate_address(self) -> ActionResult:
        self.need("AllocationId", "NetworkInterfaceId")
        eni = self.ec2_backend.get_network_interface(self.params["NetworkInterfaceId"])
        address = self._address()
        own_addresses = [other for other in self.ec2_backend.addresses if other.eni is eni]
        if (address.eni and address.eni is not eni) or (
            own_addresses and own_addresses != [address]
        ):
            raise refused(
                "Resource.AlreadyAssociated",
                f"resource {address.allocation_id} is already associated",
            )
        self.ec2_backend.associate_address(eni=eni, allocation_id=address.allocation_id)
        self.place.rules_changed()
        return ActionResult({"AssociationId": address.association_id})

    def release_address(self) -> ActionResult:
        self.need("AllocationId")
        address = self._address()
        if address.eni:
            raise refused("InvalidIPAddress.InUse", f"Address {address.public_ip} is in use.")
        self.ec2_backend.addresses.remove(address)
        self.ec2_backend.tags.pop(address.id, None)
        return ActionResult({})

    def _address(self) -> Any:
        allocation_id = self.params["AllocationId"]
        for address in self.ec2_backend.addresses:
            if address.allocation_id == allocation_id and _visible(address):
                return address
        raise refused(
            "InvalidAllocationID.NotFound", f"The allocation ID '{allocation_id}' does not exist"
        )


def _visible(address: Any) -> bool:
    """Tell whether the cloud lets anybody see an address yet; a stranger's always."""
    return getattr(address, "visible", 0.0) <= time.monotonic()
