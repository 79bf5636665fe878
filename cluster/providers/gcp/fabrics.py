"""The networks between GPUs, which are made with a launch and gone with it.

Sources: blueprints of GoogleCloudPlatform/cluster-toolkit (examples/machine-learning: what each
type has); VPC, "RDMA network profiles": such a network is in one zone, lets all traffic in, and
takes no VPC firewall rules; Compute Engine, "Create an instance that uses Cloud RDMA" (H4D).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cluster.core.errors import SpecError
from cluster.core.model.value import Value
from cluster.providers.gcp.labels import description_of, label

if TYPE_CHECKING:
    from cluster.providers._cloud.tags import Tags
    from cluster.providers.gcp.api import Project

RANGE = "192.168.{}.0/20"  # of a subnet: no two of a machine may overlap
ROCE, FALCON = "vpc-roce", "vpc-falcon"
GVNIC = "GVNIC"
Body = dict[str, Any]


class GcpFabric(Value, frozen=True):
    """What connects the machines of a type beside the network for logins."""

    name: str
    plugin: str  # what programs need to use it
    networks: int = 0  # with a gVNIC in each
    rdma: int = 0  # interfaces, all in one network of the zone
    profile: str = ""  # of that network, without the zone
    mtu: int = 8896


FABRICS = {
    "a3-highgpu-8g": GcpFabric("GPUDirect-TCPX", "NCCL's plug-in TCPX and its kernel", 4, mtu=8244),
    "a3-megagpu-8g": GcpFabric("GPUDirect-TCPXO", "NCCL's plug-in FasTrak", 8, mtu=8244),
    "a3-ultragpu-8g|a4-highgpu-8g": GcpFabric("RoCE", "NCCL's plug-in gIB", 1, 8, ROCE),
    "a4x-highgpu-4g": GcpFabric("RoCE", "NCCL's plug-in gIB", 1, 4, ROCE),
    "h4d-.*": GcpFabric("Falcon", "the driver irdma", 0, 1, FALCON),
}


class Nic(NamedTuple):
    """An interface of a machine to its fabric."""

    network: str
    subnet: str
    kind: str  # GVNIC, MRDMA, IRDMA


def fabric_of(instance: str) -> GcpFabric | None:
    return next((item for types, item in FABRICS.items() if re.fullmatch(types, instance)), None)


def zones_with(project: Project, fabric: GcpFabric, zones: Sequence[str]) -> tuple[str, ...]:
    """Return the zones that have the network profile, if it needs one (SpecError: none has)."""
    if not fabric.profile:
        return tuple(zones)
    profiles = {profile.name for profile in project.all("network_profiles")}
    able = tuple(zone for zone in zones if f"{zone}-{fabric.profile}" in profiles)
    if not able:
        raise SpecError(
            f"{', '.join(zones)} has no network profile {fabric.profile} for {fabric.name}.",
            remedy="Choose another --zone, or use --option fabric=0: one interface, for TCP.",
        )
    return able


def line(instance: str, fabric: GcpFabric | None) -> str:
    if fabric is None:
        unused = "the network between its GPUs is not used: its machines get one interface, for TCP"
        return unused if fabric_of(instance) else ""
    return (
        f"fabric: {fabric.name}, {fabric.networks + fabric.rdma} more interface(s) each, "
        f"in {fabric.networks + bool(fabric.rdma)} networks made and deleted with it; to use it "
        f"programs need {fabric.plugin}, which the image may lack: their log shows it"
    )


def nics(fabric: GcpFabric, tags: Tags, zone: str) -> list[Nic]:
    own, rdma = f"{label(tags)}-f", f"{label(tags)}-r{zone[-1]}"
    kind = "IRDMA" if fabric.profile == FALCON else "MRDMA"
    return [
        *(Nic(f"{own}{number}", f"{own}{number}", GVNIC) for number in range(fabric.networks)),
        *(Nic(rdma, f"{rdma}{number}", kind) for number in range(fabric.rdma)),
    ]


def bodies(fabric: GcpFabric, tags: Tags, zone: str) -> tuple[tuple[str, str, list[Body]], ...]:
    """Return what to make for machines in a zone, each with its collection and kind.

    Networks for RDMA are of the zone; the others are the same in all zones.
    """
    ours = {"description": description_of(tags)}
    members = {"source_tags": [label(tags)], "target_tags": [label(tags)]}
    networks: dict[str, Body] = {}
    subnets, rules = [], []
    for number, nic in enumerate(nics(fabric, tags, zone)):
        named, within = {"name": nic.network}, {"network": f"global/networks/{nic.network}", **ours}
        network = {**named, "auto_create_subnetworks": False, "mtu": fabric.mtu, **ours}
        if nic.kind == GVNIC:
            rules.append({**named, "allowed": [{"I_p_protocol": "all"}], **members, **within})
        else:
            network["network_profile"] = f"global/networkProfiles/{zone}-{fabric.profile}"
        networks[nic.network] = network
        cidr = RANGE.format(16 * number)
        subnets.append({"name": nic.subnet, "ip_cidr_range": cidr, **within})
    return (
        ("networks", "network", list(networks.values())),
        ("subnetworks", "subnetwork", subnets),
        ("firewalls", "firewall", rules),
    )
