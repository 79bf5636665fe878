"""The caller's clusters at Amazon, from whichever machine they were launched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.model.resources import RemoteCluster
from cluster.providers._cloud.tags import CLUSTER, Selection
from cluster.providers.aws.delete import AwsDeletion
from cluster.providers.aws.instances import GONE, filters_of, instances, state_of, tags_of, zone_of
from cluster.providers.aws.prices import price

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import InstanceTypeDef

    from cluster.providers._cloud.tags import Tags
    from cluster.providers.aws.api import Region


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
    alive = [one for one in instances(region, filters_of(ours)) if state_of(one) not in GONE]
    by_name: dict[str, list[InstanceTypeDef]] = {name: [] for name in found}
    for one in sorted(alive, key=lambda one: one.get("AmiLaunchIndex", 0)):
        by_name.setdefault(tags_of(one).get(CLUSTER, ""), []).append(one)
    return tuple(_live(region, tags, by_name[name]) for name, tags in found.items())


def _live(region: Region, tags: Tags, alive: list[InstanceTypeDef]) -> RemoteCluster:
    first = alive[0] if alive else None
    since = first["LaunchTime"].timestamp() if first and "LaunchTime" in first else 0.0
    cost = (
        None
        if first is None
        else price(
            region,
            first.get("InstanceType", ""),
            zone_of(first),
            spot=first.get("InstanceLifecycle") == "spot",
        )
    )
    return RemoteCluster(
        name=tags.name,
        region=region.name,
        host=tags.host,
        addresses=tuple(one.get("PrivateIpAddress", "") for one in alive),
        states=tuple(state_of(one) for one in alive),
        since=since,
        expires=tags.expires,
        price=cost,
    )
