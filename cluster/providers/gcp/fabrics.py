"""The networks between GPUs: made with a launch and gone with it, or taken by name.

Sources: blueprints of GoogleCloudPlatform/cluster-toolkit (examples/machine-learning: what each
type has); VPC, "RDMA network profiles": such a network is in one zone, lets all traffic in, and
takes no VPC firewall rules; Compute Engine, "Create an instance that uses Cloud RDMA" (H4D).
"""

import re
from collections.abc import Sequence
from ipaddress import ip_network
from itertools import combinations
from typing import Any, NamedTuple

from cluster.core.errors import SpecError
from cluster.core.model.value import Value
from cluster.providers._cloud.options import words
from cluster.providers._cloud.tags import Tags
from cluster.providers.gcp.api import Project
from cluster.providers.gcp.labels import description_of, label

RANGES = "192.168.0.0/16"  # of all subnets of a fabric
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

    @property
    def kind(self) -> str:
        """The kind of the interfaces for RDMA."""
        return "IRDMA" if self.profile == FALCON else "MRDMA"


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


def choose(
    project: Project, region: str, instance: str, option: str, zones: tuple[str, ...], login: str
) -> tuple[GcpFabric | None, tuple[Nic, ...], tuple[str, ...]]:
    """Return the fabric, its interfaces if its networks exist, and the zones with it (SpecError).

    The `option` is 0 for none, 1 for networks of the launch, or the names of those that exist,
    beside the network for `login`.
    """
    fabric = fabric_of(instance)
    if option == "0" or (option == "1" and fabric is None):
        return None, (), zones
    if fabric is None:
        raise SpecError(
            f"{instance} has one interface: it cannot have --option fabric={option}.",
            remedy="Leave the option out, or choose --instance a3-megagpu-8g or another with more.",
        )
    if option == "1":
        return fabric, (), _zones_with(project, fabric, zones)
    return fabric, *_existing(project, region, fabric, words(option), zones, login)


def _existing(
    project: Project,
    region: str,
    fabric: GcpFabric,
    names: list[str],
    zones: tuple[str, ...],
    login: str,
) -> tuple[tuple[Nic, ...], tuple[str, ...]]:
    """Return an interface to each network of a name, or several for RDMA, and the zones."""
    networks = {network.name: network for network in project.all("networks")}
    answer = project.all("subnetworks", region=region)
    rows = (subnet for subnet in answer if subnet.ip_cidr_range)  # others have only IPv6
    subnets = sorted(rows, key=lambda subnet: subnet.name)
    nics, ranges, places = [], [], zones
    for name in names:
        if name not in networks or name == login:
            raise SpecError(
                f"There is no network {name!r} beside {login!r} in the project {project.name}.",
                remedy="See its networks: gcloud compute networks list",
            )
        profile = networks[name].network_profile.rpartition("/")[2]
        places = tuple(zone for zone in places if profile in ("", f"{zone}-{fabric.profile}"))
        own_subnets = [subnet for subnet in subnets if subnet.network.rpartition("/")[2] == name]
        for subnet in own_subnets[: fabric.rdma if profile else 1]:
            nics.append(Nic(name, subnet.name, fabric.kind if profile else GVNIC))
            ranges.append(ip_network(subnet.ip_cidr_range))
    kinds = sorted(nic.kind for nic in nics)
    expected = [GVNIC] * fabric.networks + [fabric.kind] * fabric.rdma
    if not places or kinds != expected or any(a.overlaps(b) for a, b in combinations(ranges, 2)):
        rdma = f"one with the profile {fabric.profile} of the zone and {fabric.rdma} subnets"
        raise SpecError(
            f"{', '.join(names)} cannot be the {fabric.name} networks in {', '.join(zones)}.",
            means=f"It takes {fabric.networks} networks with a subnet in {region}"
            f"{f', and {rdma}' * bool(fabric.rdma)}; no two ranges of addresses may overlap.",
            remedy="Name others, or leave the option out: then they are made with the launch.",
        )
    return tuple(sorted(nics, key=lambda nic: nic.kind)), places


def _zones_with(project: Project, fabric: GcpFabric, zones: tuple[str, ...]) -> tuple[str, ...]:
    """Return the zones that have the network profile, if it needs one (SpecError: none has)."""
    if not fabric.profile:
        return zones
    profiles = {profile.name for profile in project.all("network_profiles")}
    places = tuple(zone for zone in zones if f"{zone}-{fabric.profile}" in profiles)
    if not places:
        raise SpecError(
            f"{', '.join(zones)} has no network profile {fabric.profile} for {fabric.name}.",
            remedy="Choose another --zone, or use --option fabric=0: one interface, for TCP.",
        )
    return places


def line(instance: str, fabric: GcpFabric | None, existing: Sequence[Nic]) -> str:
    if fabric is None:
        note = "the network between its GPUs is not used: its machines get one interface, for TCP"
        return note if fabric_of(instance) else ""
    count = fabric.networks + bool(fabric.rdma)
    names = ", ".join(dict.fromkeys(nic.network for nic in existing))
    return (
        f"fabric: {fabric.name}, {fabric.networks + fabric.rdma} more interface(s) each, "
        f"in {f'{names}, which stay' if names else f'{count} networks made and deleted with it'}; "
        f"to use it programs need {fabric.plugin}, which the image may lack: their log shows it"
    )


def nics(fabric: GcpFabric, tags: Tags, zone: str) -> list[Nic]:
    stem = f"{label(tags)}-f"
    rdma = f"{label(tags)}-{fabric.kind[0].lower()}{zone.rpartition('-')[2]}"
    return [
        *(Nic(f"{stem}{number}", f"{stem}{number}", GVNIC) for number in range(fabric.networks)),
        *(Nic(rdma, f"{rdma}{number}", fabric.kind) for number in range(fabric.rdma)),
    ]


def bodies(
    fabric: GcpFabric, existing: Sequence[Nic], tags: Tags, zone: str
) -> tuple[tuple[str, list[Body]], ...]:
    """Return what to make for machines in a zone, by collection.

    Networks for RDMA are of the zone; the others are the same in all zones. In those that exist,
    only rules are made.
    """
    labels = {"description": description_of(tags)}
    members = {"source_tags": [label(tags)], "target_tags": [label(tags)]}
    networks: dict[str, Body] = {}
    subnets, rules = [], []
    for number, nic in enumerate(existing or nics(fabric, tags, zone)):
        identity, within = (
            {"name": nic.network},
            {"network": f"global/networks/{nic.network}", **labels},
        )
        network = {**identity, "auto_create_subnetworks": False, "mtu": fabric.mtu, **labels}
        if nic.kind == GVNIC:
            rule = {"name": f"{label(tags)}-f{number}", "allowed": [{"I_p_protocol": "all"}]}
            rules.append({**rule, **members, **within})
        else:
            network["network_profile"] = f"global/networkProfiles/{zone}-{fabric.profile}"
        networks[nic.network] = network
        cidr = RANGE.format(16 * number)
        subnets.append({"name": nic.subnet, "ip_cidr_range": cidr, **within})
    resources = (
        ("networks", list(networks.values())),
        ("subnetworks", subnets),
        ("firewalls", rules),
    )
    return resources[-1:] if existing else resources
