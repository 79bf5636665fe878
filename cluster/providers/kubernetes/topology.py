"""The network of nodes, as the labels of clouds and of topograph describe it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.model.placement import NetworkLayer, ProviderTopology
from cluster.providers.kubernetes.states import Metadata, Object

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cluster.providers.kubernetes.api import Api

GCP, AWS = "cloud.google.com/gce-topology", "topology.k8s.aws/network-node-layer"
OCI, COREWEAVE = "oci.oraclecloud.com/rdma", "backend.coreweave.cloud"
TOPOGRAPH = "network.topology.nvidia.com"
LABELS = {  # of nodes, the layers nearest to them first, and their names
    f"{GCP}-host": "physical host",
    "nvidia.com/gpu.clique": "NVLink clique",
    "ds.coreweave.com/nvlink.domain": "NVLink domain",
    f"{TOPOGRAPH}/accelerator": "NVLink domain",
    f"{GCP}-subblock": "sub-block",
    f"{GCP}-block": "block",
    **{f"{AWS}-{layer}": f"network node {layer}" for layer in (3, 2, 1)},
    f"{OCI}.local_block_id": "local block",
    f"{OCI}.network_block_id": "network block",
    f"{OCI}.hpc_island_id": "HPC island",
    f"{COREWEAVE}/leafgroup": "leaf group",
    f"{COREWEAVE}/superpod": "superpod",
    f"{COREWEAVE}/fabric": "fabric",
    **{f"{TOPOGRAPH}/{layer}": f"{layer} switch" for layer in ("leaf", "spine", "core")},
}


def read_topology(nodes: Sequence[Object]) -> ProviderTopology:
    """Read which nodes share a part of the network; `nodes` are those of the hosts, in order."""
    layers = []
    for label, name in LABELS.items():
        values = [node.metadata.labels.get(label) for node in nodes]
        if any(values):
            groups = tuple(values.index(value) if value else None for value in values)
            layers.append(NetworkLayer(name=name, groups=groups, switch=name != "physical host"))
    reason = "" if layers else "the nodes have no labels of a topology"
    return ProviderTopology(layers=tuple(layers), reason=reason)


def nodes_of(api: Api, pods: Iterable[Object]) -> list[Object]:
    """Return the nodes of pods; without labels if they may not be listed."""
    listed = {node.metadata.name: node for node in api.list_if_allowed("/api/v1/nodes") or ()}
    names = [pod.spec.node_name for pod in pods]
    return [listed.get(name) or Object(metadata=Metadata(name=name)) for name in names]


def place_of(node: Object) -> tuple[str, ...]:
    """Return what sorts nodes so that neighbours are near, the farthest layer first."""
    labels = node.metadata.labels
    return (*(labels.get(label, "") for label in reversed(LABELS)), node.metadata.name)
