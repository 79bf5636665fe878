"""Where Google says that machines are in its network.

Source: cloud.google.com/compute/docs/instances/view-instance-topology
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.model.placement import ProviderTopology
from cluster.providers._cloud.network_layers import network_layers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.cloud.compute_v1.types.compute import ResourceStatus

    from cluster.providers.gcp.api import Project

LAYERS = ("cluster", "block", "sub-block", "physical host")  # from the top


def read_topology(project: Project, ids: Sequence[str], wanted: str) -> ProviderTopology:
    """Read the physical location of machines.

    Args:
        ids: of the machines: `ZONE/NAME`.

    Raises:
        Failure: Google refused.

    """
    places = dict.fromkeys(id_.partition("/")[0] for id_ in ids)
    found = {
        f"{place}/{one.name}": _location(one.resource_status)
        for place in places
        for one in project.all("instances", zone=place, filter=wanted)
    }
    layers = network_layers(LAYERS, [found.get(id_, ()) for id_ in ids], machines=1)
    return ProviderTopology(layers=layers) if layers else ProviderTopology(reason=NOTHING)


NOTHING = (
    "Google names no physical hosts for these machines: it does so with --placement, and for some "
    "types, such as a3-highgpu-8g, a4 or h4d"
)


def _location(status: ResourceStatus) -> tuple[str, ...]:
    """Return nodes above a machine, from the top; of `block/sub-block/host`, without the cluster.

    Older answers have only that text, in some with a slash before it.
    """
    where = status.physical_host_topology
    nodes = (where.cluster, where.block, where.subblock, where.host)
    if any(nodes):
        return nodes
    parts = [part for part in status.physical_host.split("/") if part]
    return ("", *parts) if len(parts) == len(LAYERS) - 1 else ()
