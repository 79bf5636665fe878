"""What Google refuses of instances before any is made: what does not exist, or does not fit."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

from tests.fakes.gaps import GapError
from tests.fakes.gcp import catalog, instance_hosts
from tests.fakes.gcp.catalog import PROJECT, family, region_of
from tests.fakes.gcp.errors import invalid, missing
from tests.fakes.gcp.quotas import gpus_of
from tests.fakes.gcp.resources import path_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.fakes.gcp.cloud import Cloud

LABEL_KEY = re.compile(r"[a-z][-_a-z0-9]{0,62}")
LABEL_VALUE = re.compile(r"[-_a-z0-9]{0,63}")
SHORTEST, LONGEST = 30, 120 * 24 * 3600  # seconds of maxRunDuration
PROPERTIES = {
    "advancedMachineFeatures",
    "description",
    "disks",
    "guestAccelerators",
    "labels",
    "machineType",
    "metadata",
    "networkInterfaces",
    "networkPerformanceConfig",
    "reservationAffinity",
    "resourcePolicies",
    "scheduling",
    "serviceAccounts",
    "shieldedInstanceConfig",
    "tags",
}


def check(cloud: Cloud, zone: str, properties: Mapping[str, Any]) -> None:
    """Refuse what Google refuses before anything is made."""
    if extras := set(properties) - PROPERTIES:
        raise GapError(f"instanceProperties with {', '.join(sorted(extras))}")
    name = properties["machineType"]
    kind = cloud.resources.get(f"projects/{PROJECT}/zones/{zone}/machineTypes/{name}")
    if kind is None:
        raise invalid(
            "instanceProperties.machineType",
            name,
            f"Machine type with name '{name}' does not exist in zone '{zone}'.",
        )
    instance_hosts.metadata(properties)
    _check_labels(properties)
    gpus = _check_gpus(cloud, zone, kind, properties)
    policies = _check_policies(cloud, zone, name, properties)
    fixed = family(name) in catalog.FIXED
    _check_scheduling(properties, terminate=bool(gpus or policies or fixed))
    _check_network(cloud, kind, zone, properties)
    _check_disks(cloud, kind, properties)


def _check_labels(properties: Mapping[str, Any]) -> None:
    disks = [disk.get("initializeParams", {}) for disk in properties.get("disks", [])]
    for labels in (part.get("labels", {}) for part in (properties, *disks)):
        for key, value in labels.items():
            if not (LABEL_KEY.fullmatch(key) and LABEL_VALUE.fullmatch(value)):
                raise invalid("labels", f"{key}={value}", "It is not a label.")


def _check_gpus(
    cloud: Cloud, zone: str, kind: Mapping[str, Any], properties: Mapping[str, Any]
) -> list[tuple[str, int]]:
    gpus = gpus_of(kind, properties)
    for name, count in gpus:
        path = f"projects/{PROJECT}/zones/{zone}/acceleratorTypes/{name}"
        if path not in cloud.resources:
            raise missing(path)
        attached = "accelerators" not in kind
        if attached and (family(kind["name"]) != "n1" or name not in catalog.TO_N1):
            raise invalid("guestAccelerators", name, f"{kind['name']} cannot have it.")
        if count > cloud.resources[path]["maximumCardsPerInstance"]:
            raise invalid("guestAccelerators", count, "There are not so many.")
    return gpus


def _check_policies(
    cloud: Cloud, zone: str, name: str, properties: Mapping[str, Any]
) -> list[dict[str, Any]]:
    policies = []
    for reference in properties.get("resourcePolicies", []):
        default = f"regions/{region_of(zone)}/resourcePolicies/{reference}"
        path = path_of(reference if "/" in reference else default)
        if path not in cloud.resources:
            raise missing(path)
        if family(name) in catalog.NOT_COMPACT:
            raise invalid("resourcePolicies", reference, f"{name} has no compact placement.")
        policies.append(cloud.resources[path])
    return policies


def _check_scheduling(properties: Mapping[str, Any], *, terminate: bool) -> None:
    scheduling = properties.get("scheduling", {})
    spot = scheduling.get("provisioningModel") == "SPOT"
    if scheduling.get("provisioningModel") == "FLEX_START":
        _check_flex_start(properties)
    if (terminate or spot) and scheduling.get("onHostMaintenance") != "TERMINATE":
        raise invalid(
            "scheduling.onHostMaintenance",
            scheduling.get("onHostMaintenance"),
            "Instances with guest accelerators, spot instances and such with a placement "
            "policy do not support live migration.",
        )
    span = scheduling.get("maxRunDuration")
    if span is None:
        return
    if not SHORTEST <= int(span["seconds"]) <= LONGEST:
        raise invalid("scheduling.maxRunDuration", span, "It must be 30 s to 120 days.")
    if scheduling.get("instanceTerminationAction") not in ("DELETE", "STOP"):
        raise invalid("scheduling.instanceTerminationAction", "", "It must be said.")


def _check_flex_start(properties: Mapping[str, Any]) -> None:
    """Refuse what Google's pages on Flex-start VMs exclude.

    Compute Engine, "About Flex-start VMs": accelerator-optimized types but A4X, and H4D; 10 minutes
    to 7 days; no reservation. Cluster toolkit, "DWS Flex Start": `NO_RESERVATION`, and what ends
    them is said. Compact placement: release notes of 2026-03-02, for single VMs only.
    """
    scheduling = properties["scheduling"]
    if family(properties["machineType"]) not in catalog.FLEX_START:
        raise invalid("machineType", properties["machineType"], "It has no FLEX_START.")
    seconds = int(scheduling.get("maxRunDuration", {}).get("seconds", 0))
    if not catalog.FLEX_SHORTEST <= seconds <= catalog.FLEX_LONGEST:
        raise invalid("scheduling.maxRunDuration", seconds, "It must be 10 minutes to 7 days.")
    affinity = properties.get("reservationAffinity", {}).get("consumeReservationType")
    if affinity != "NO_RESERVATION":
        raise invalid("reservationAffinity", affinity, "FLEX_START takes NO_RESERVATION.")
    if scheduling.get("instanceTerminationAction") != "DELETE":
        raise invalid("scheduling.instanceTerminationAction", "", "A group needs DELETE.")
    if properties.get("resourcePolicies"):
        raise GapError("Flex-start VMs of a group with a placement policy")


def _check_network(
    cloud: Cloud, kind: Mapping[str, Any], zone: str, properties: Mapping[str, Any]
) -> None:
    nics = properties.get("networkInterfaces", [])
    for number, nic in enumerate(nics):
        _check_nic(cloud, zone, nic, nics[:number])
    gvnics, rdma = catalog.OFFERS["nics"].get(kind["name"], (1, 0))
    rdma_nics = sum(nic.get("nicType") in catalog.RDMA_NICS.values() for nic in nics)
    if not 0 < len(nics) - rdma_nics <= gvnics or rdma_nics > rdma:
        raise invalid("networkInterfaces", len(nics), f"{kind['name']} cannot have them.")
    tier = properties.get("networkPerformanceConfig", {}).get("totalEgressBandwidthTier")
    able = family(kind["name"]) in catalog.TIER_1
    if tier == "TIER_1" and not (
        able
        and kind["guestCpus"] >= catalog.FEWEST_FOR_TIER_1
        and nics[0].get("nicType") == "GVNIC"
    ):
        raise invalid("networkPerformanceConfig", tier, f"{kind['name']} has no Tier_1.")


def _check_nic(
    cloud: Cloud, zone: str, nic: Mapping[str, Any], before: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse an interface beside those before it (VPC, "Multiple network interfaces").

    The words are those of public error reports of Google's API.
    """
    network, subnet = networks(cloud, zone, nic)
    if absent := [path for path in (network, subnet) if path not in cloud.resources]:
        raise missing(absent[0])
    earlier = [networks(cloud, zone, other) for other in before]
    profile = cloud.resources[network].get("networkProfile", "").rpartition("/")[2]
    if network in [path for path, _ in earlier] and not profile:
        raise invalid("networkInterfaces", network, "Networks must be distinct for NICs.")
    if subnet in [path for _, path in earlier]:
        raise invalid("networkInterfaces", subnet, "Subnetworks must be distinct for NICs.")
    cidrs = [cloud.resources[path]["ipCidrRange"] for _, path in earlier]
    if overlap(cloud.resources[subnet]["ipCidrRange"], *cidrs):
        raise invalid("networkInterfaces", subnet, "Subnetwork CIDR ranges must not overlap.")
    nic_type = catalog.RDMA_NICS.get(profile.partition("-vpc-")[2], "GVNIC")
    if nic.get("nicType", "GVNIC") != nic_type:  # unless it is said
        raise invalid("networkInterfaces", nic.get("nicType"), "The network has another NIC type.")
    if profile and not (profile.startswith(f"{zone}-") and before and "accessConfigs" not in nic):
        raise invalid("networkInterfaces", network, f"The network is of {profile}.")


def overlap(cidr: str, *ranges: str) -> bool:
    """Tell whether a range of addresses has some in common with others."""
    return any(ip_network(cidr).overlaps(ip_network(other)) for other in ranges)


def _check_disks(cloud: Cloud, kind: Mapping[str, Any], properties: Mapping[str, Any]) -> None:
    disks = properties.get("disks", [])
    if len(disks) != 1 or not disks[0].get("boot"):
        raise GapError(f"disks like {disks}")
    path = path_of(disks[0]["initializeParams"]["sourceImage"])
    if path not in cloud.resources:
        raise missing(path)
    architecture = cloud.resources[path]["architecture"]
    if architecture != kind["architecture"]:
        raise invalid(
            "disks[0].initializeParams.sourceImage", path, f"It is for {architecture} machines."
        )


def networks(cloud: Cloud, zone: str, nic: Mapping[str, Any]) -> tuple[str, str]:
    """Return the paths of the network and the subnet of an interface."""
    if "subnetwork" in nic:
        subnet = path_of(nic["subnetwork"])
        resource = cloud.resources.get(subnet, {})
        return str(resource.get("network", subnet)), subnet
    network = path_of(nic.get("network", "global/networks/default"))
    name = network.rpartition("/")[2]
    return network, f"projects/{PROJECT}/regions/{region_of(zone)}/subnetworks/{name}"
