"""The caller's clusters at Amazon, from whichever machine they were launched."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from cluster.core.model.resources import RemoteCluster
from cluster.providers._cloud.tags import Selection
from cluster.providers.aws.delete import GONE, AwsDeletion, filters_of, instances
from cluster.providers.aws.prices import price

if TYPE_CHECKING:
    from cluster.providers._cloud.tags import Tags
    from cluster.providers.aws.api import Region
    from cluster.providers.aws.responses import AwsInstance


def regions(region: Region) -> tuple[str, ...]:
    """List the regions that the account can use.

    Returns:
        Their names, sorted.

    Raises:
        Failure: Amazon refused.

    """
    found = region.call("describe_regions", "Regions")["Regions"]
    return tuple(sorted(str(one["RegionName"]) for one in found))


def list_clusters(region: Region) -> tuple[RemoteCluster, ...]:
    """List the caller's clusters in a region, also those of which only a group or a key is left.

    Raises:
        Failure: Amazon refused a call.

    """
    ours = Selection(owner=region.owner)
    found = {one.tags.name: one.tags for one in AwsDeletion(region, ours).found() if one.tags}
    alive = [one for one in instances(region, filters_of(ours)) if one.state.name not in GONE]
    by_name = {
        name: list(group)
        for name, group in groupby(
            sorted(alive, key=lambda one: (one.tags.get("cluster", ""), one.ami_launch_index)),
            key=lambda one: one.tags.get("cluster", ""),
        )
    }
    return tuple(_live(region, tags, by_name.get(tags.name, [])) for tags in found.values())


def _live(region: Region, tags: Tags, alive: list[AwsInstance]) -> RemoteCluster:
    first = alive[0] if alive else None
    since = first.launch_time.timestamp() if first and first.launch_time else 0.0
    cost = (
        None
        if first is None
        else price(
            region,
            first.instance_type,
            first.placement.availability_zone,
            spot=first.instance_lifecycle == "spot",
        )
    )
    return RemoteCluster(
        name=tags.name,
        region=region.name,
        host=tags.host,
        addresses=tuple(one.private_ip_address for one in alive),
        states=tuple(one.state.name for one in alive),
        since=since,
        expires=tags.expires,
        price=cost,
    )
