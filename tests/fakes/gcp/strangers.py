"""What a stranger in the same project has, with names like ours: nobody may touch it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fakes.gcp.catalog import PROJECT, SUBNETS

if TYPE_CHECKING:
    from tests.fakes.gcp.cloud import Cloud

NAMES = ("c5", "mpi-test", "cluster-c5", "cluster-mpi-test")
ZONE = "us-central1-a"
LABELS = {"owner": "a-stranger"}


def put(cloud: Cloud) -> None:
    """Make the default network and the stranger's things."""
    made: dict[str, dict[str, Any]] = {}
    network = f"projects/{PROJECT}/global/networks/default"
    if cloud.settings.default_network:
        made[network] = {"name": "default", "autoCreateSubnetworks": True, "mtu": 1460}
        for region, cidr in SUBNETS.items():
            made[f"projects/{PROJECT}/regions/{region}/subnetworks/default"] = {
                "name": "default",
                "network": network,
                "ipCidrRange": cidr,
                "region": region,
            }
        made |= _walls(network)
    for name in NAMES:
        made |= _stranger(name, network)
    cloud.resources |= made


def _walls(network: str) -> dict[str, dict[str, Any]]:
    """Return the rules that a default network comes with: SSH is open to everybody."""
    rules = {
        "default-allow-ssh": ("0.0.0.0/0", {"IPProtocol": "tcp", "ports": ["22"]}),
        "default-allow-internal": ("10.128.0.0/9", {"IPProtocol": "all"}),
        "default-allow-icmp": ("0.0.0.0/0", {"IPProtocol": "icmp"}),
    }
    return {
        f"projects/{PROJECT}/global/firewalls/{name}": {
            "name": name,
            "network": network,
            "priority": 65534,
            "sourceRanges": [source],
            "allowed": [what],
            "direction": "INGRESS",
        }
        for name, (source, what) in rules.items()
    }


def _stranger(name: str, network: str) -> dict[str, dict[str, Any]]:
    zone = f"projects/{PROJECT}/zones/{ZONE}"
    policy = f"projects/{PROJECT}/regions/us-central1/resourcePolicies/{name}"
    disk = f"{zone}/disks/{name}-0001"
    template = f"projects/{PROJECT}/global/instanceTemplates/{name}"
    return {
        template: {"name": name, "description": "of a stranger"},
        f"{zone}/instanceGroupManagers/{name}": {
            "name": name,
            "zone": zone,
            "description": "of a stranger",
            "instanceTemplate": template,
            "targetSize": 0,
        },
        policy: {
            "name": name,
            "region": "us-central1",
            "status": "READY",
            "description": "of a stranger",
            "groupPlacementPolicy": {"collocation": "COLLOCATED"},
        },
        f"projects/{PROJECT}/global/firewalls/{name}": {
            "name": name,
            "network": network,
            "description": "of a stranger",
            "targetTags": [name],
            "sourceRanges": ["192.0.2.0/24"],
            "allowed": [{"IPProtocol": "tcp", "ports": ["22"]}],
        },
        disk: {"name": f"{name}-0001", "zone": zone, "sizeGb": "10", "labels": LABELS},
        f"{zone}/instances/{name}-0001": {
            "name": f"{name}-0001",
            "zone": zone,
            "machineType": f"{zone}/machineTypes/c2-standard-4",
            "status": "RUNNING",
            "labels": {**LABELS, "cluster": name},
            "description": "of a stranger",
            "resourcePolicies": [policy],
            "networkInterfaces": [],
            "disks": [{"source": disk, "autoDelete": True, "boot": True}],
        },
    }
