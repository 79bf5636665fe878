"""Elastic IPs: public addresses of machines with several network interfaces, which get no other."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING

from cluster.providers._cloud.api_errors import UNLISTED, Failure, retry
from cluster.providers._cloud.tags import LAUNCH
from cluster.providers.aws.delete import ELASTIC_IP_REQUEST
from cluster.providers.aws.request import tag_specifications
from cluster.providers.aws.responses import ElasticIp

if TYPE_CHECKING:
    from cluster.providers._cloud.launch import LaunchJournal
    from cluster.providers._cloud.tags import Tags
    from cluster.providers.aws.api import Region
    from cluster.providers.aws.responses import AwsInstance

HOURLY = 0.005  # US dollars for a public address (aws.amazon.com/vpc/pricing, since 2024-02-01)


class ElasticIps:
    """The Elastic IPs of a launch.

    Args:
        region: where.
        tags: of the launch, which each address carries.
        orders: the requests of the launch, each on disk before it is sent.

    """

    def __init__(self, region: Region, tags: Tags, orders: LaunchJournal) -> None:
        """Ask nobody yet."""
        self._region = region
        self._tags = tags
        self._orders = orders

    def allocate(self, count: int) -> tuple[ElasticIp, ...]:
        """Get addresses; what a call made whose reply was lost is found by its tags.

        Args:
            count: how many.

        Returns:
            At least so many.

        Raises:
            Failure: the account may not have so many.

        """
        made: set[str] = set()

        def attempt() -> tuple[ElasticIp, ...]:
            while len({one.allocation_id for one in self._listed()} | made) < count:
                token = f"{self._tags.launch}/{secrets.token_hex(4)}"  # Amazon has none for it
                made.update(self._orders.request(ELASTIC_IP_REQUEST, token, self._allocate_one))
            found = self._listed()
            if not made <= {one.allocation_id for one in found}:
                raise Failure(
                    "missing",
                    operation="DescribeAddresses",
                    code="",
                    message="An address that was just allocated is not listed",
                )
            return found

        return retry(attempt, kinds=UNLISTED)

    def associate(self, machines: list[AwsInstance], addresses: tuple[ElasticIp, ...]) -> None:
        """Give each machine one, at its first interface; one that has one keeps it.

        Args:
            machines: that run.
            addresses: as `allocate` gave them.

        Raises:
            Failure: it was refused.

        """
        taken = {one.network_interface_id for one in addresses if one.network_interface_id}
        free = [one for one in addresses if not one.network_interface_id]
        bare = [one.primary for one in machines if one.primary not in taken]
        for interface, address in zip(bare, free, strict=False):
            call = partial(
                self._region.once,
                "associate_address",
                AllocationId=address.allocation_id,
                NetworkInterfaceId=interface,
            )
            retry(call, kinds=UNLISTED)

    def _allocate_one(self) -> tuple[str]:
        tagged = tag_specifications(self._tags, "elastic-ip")
        answer = self._region.once("allocate_address", Domain="vpc", TagSpecifications=tagged)
        return (str(answer["AllocationId"]),)

    def _listed(self) -> tuple[ElasticIp, ...]:
        mine = [{"Name": f"tag:{LAUNCH}", "Values": [self._tags.launch]}]
        return self._region.all("describe_addresses", "Addresses", ElasticIp, Filters=mine)
