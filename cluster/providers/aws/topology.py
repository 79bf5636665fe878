"""Where Amazon says that instances are in its network.

Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/how-ec2-instance-topology-works.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.model.placement import ProviderTopology
from cluster.providers._cloud.network_layers import network_layers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from types_boto3_ec2.type_defs import InstanceTopologyTypeDef

    from cluster.providers.aws.api import Region

MOST = 100  # ids that a call may name


def read_topology(region: Region, ids: Sequence[str]) -> ProviderTopology:
    """Read the network nodes above instances.

    Returns:
        A layer for each network node above an instance, or why there are none.

    Raises:
        Failure: Amazon refused.

    """
    found: dict[str, InstanceTopologyTypeDef] = {}
    for first in range(0, len(ids), MOST):
        named = region.all(
            "describe_instance_topology",
            "Instances",
            InstanceIds=list(ids[first : first + MOST]),
        )
        found |= {one["InstanceId"]: one for one in named}
    locations = [found[id_].get("NetworkNodes", ()) if id_ in found else () for id_ in ids]
    layers = range(1, 1 + max(map(len, locations), default=0))
    if not layers:
        return ProviderTopology(reason=_nothing(found))
    return ProviderTopology(
        layers=network_layers([f"network node {layer}" for layer in layers], locations)
    )


def _nothing(found: dict[str, InstanceTopologyTypeDef]) -> str:
    kinds = ", ".join(sorted({kind for one in found.values() if (kind := one.get("InstanceType"))}))
    return (
        f"Amazon names no network nodes for {kinds or 'these instances'}: it does so for some "
        "types only, such as hpc7a, p5 or trn1, while they run"
    )
