"""Elastic IPs: the only public addresses that machines with several network interfaces can get."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from cluster.providers._cloud.api_errors import UNLISTED, Failure, retry
from cluster.providers._cloud.tags import LAUNCH, Tags
from cluster.providers.aws.delete import ELASTIC_IP_REQUEST
from cluster.providers.aws.instances import primary
from cluster.providers.aws.request import tag_specifications

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import AddressTypeDef, InstanceTypeDef

    from cluster.providers._cloud.launch import LaunchJournal
    from cluster.providers.aws.api import Region

HOURLY = 0.005  # US dollars per public address (aws.amazon.com/vpc/pricing, since 2024-02-01)


class ElasticIps:
    """The Elastic IPs of a launch, with its tags; its journal has each before its request."""

    def __init__(self, region: Region, tags: Tags, launch_journal: LaunchJournal) -> None:
        self._region = region
        self._tags = tags
        self._journal = launch_journal
        self._count = 0
        self._free: list[str] = []  # allocation ids of unused addresses
        self._addressed: set[str] = set()  # ids of the interfaces that have an address

    def allocate(self, count: int) -> None:
        """Allocate more; those of a call without a reply are found by their tags (Failure)."""
        allocated: set[str] = set()
        self._count += count

        def attempt() -> tuple[AddressTypeDef, ...]:
            while len({item["AllocationId"] for item in self._listed()} | allocated) < self._count:
                token = f"{self._tags.launch}/{secrets.token_hex(4)}"  # only for the journal
                with self._journal.requesting(ELASTIC_IP_REQUEST, token):
                    tagged = tag_specifications(self._tags, "elastic-ip")
                    answer = self._region.once(
                        "allocate_address", "AllocationId", Domain="vpc", TagSpecifications=tagged
                    )
                id_ = str(answer["AllocationId"])
                self._journal.record_created(token, id_)
                allocated.add(id_)
            addresses = self._listed()
            if not allocated <= {address["AllocationId"] for address in addresses}:
                raise Failure(
                    "missing",
                    operation="DescribeAddresses",
                    code="",
                    message="An address that was just allocated is not listed",
                )
            return addresses

        addresses = retry(attempt, kinds=UNLISTED)
        self._free = [
            address["AllocationId"]
            for address in addresses
            if not address.get("NetworkInterfaceId")
        ]
        self._addressed = {
            nic for address in addresses if (nic := address.get("NetworkInterfaceId"))
        }

    def associate(self, machines: Iterable[InstanceTypeDef]) -> None:
        """Associate an address with the first interface of each machine that has none (Failure)."""
        first = [primary(machine).get("NetworkInterfaceId", "") for machine in machines]
        bare = [interface for interface in first if interface and interface not in self._addressed]
        for interface, address in zip(bare, tuple(self._free), strict=False):
            call = partial(
                self._region.once,
                "associate_address",
                AllocationId=address,
                NetworkInterfaceId=interface,
            )
            retry(call, kinds=UNLISTED)
            self._free.remove(address)
            self._addressed.add(interface)

    def _listed(self) -> tuple[AddressTypeDef, ...]:
        filters = [{"Name": f"tag:{LAUNCH}", "Values": [self._tags.launch]}]
        return self._region.all("describe_addresses", "Addresses", Filters=filters)
