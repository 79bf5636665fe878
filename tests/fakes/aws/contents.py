"""A list of everything that exists in a region, for comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fakes.aws.values import Thing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fakes.aws.region import Region


def things(region: Region) -> Iterator[Thing]:
    for kind, id_, number, state in _list_all(region):
        tags = region.backend.tags.get(number, {})
        pairs = tuple(sorted(f"{key}={value}" for key, value in tags.items()))
        yield Thing(region=region.name, kind=kind, id=id_, state=state, tags=pairs)


def numbers(region: Region) -> list[tuple[str, str]]:
    """List the kind of each thing there, and the id that its tags are kept by."""
    return [(kind, number) for kind, _, number, _ in _list_all(region)]


def _list_all(region: Region) -> Iterator[tuple[str, str, str, str]]:
    backend: Any = region.backend
    for life in region.alive():
        yield "instance", life.instance.id, life.instance.id, life.state
    for volume in backend.volumes.values():
        yield "volume", volume.id, volume.id, volume.status
    for group in region.groups.values():
        yield "placement-group", group.group_name, group.id, ""
    for key in backend.key_pairs.values():
        yield "key-pair", key.key_name, key.id, ""
    for nic in backend.enis.values():
        yield "network-interface", nic.id, nic.id, ""
    for address in backend.addresses:
        yield "address", address.allocation_id, address.allocation_id, ""
    for request in backend.spot_instance_requests.values():
        yield "spot-request", request.id, request.id, request.state
    yield from _networks(backend)


def _networks(backend: Any) -> Iterator[tuple[str, str, str, str]]:
    for group in backend.describe_security_groups():
        yield "security-group", group.id, group.id, ""
    for vpc in backend.vpcs.values():
        yield "vpc", vpc.id, vpc.id, ""
    for subnet in backend.describe_subnets():
        yield "subnet", subnet.id, subnet.id, ""
    for gateway in backend.internet_gateways.values():
        yield "internet-gateway", gateway.id, gateway.id, ""
    for table in backend.route_tables.values():
        yield "route-table", table.id, table.id, ""
