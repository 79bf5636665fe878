"""What a stranger in the same project has, with names like ours: nobody may touch it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.fakes.gcp.catalog import PROJECT, SUBNETS

if TYPE_CHECKING:
    from tests.fakes.gcp.cloud import Cloud

NAMES = ("c5", "mpi-test", "cluster-c5", "cluster-mpi-test")
TEXT = Path(__file__).with_suffix(".json").read_text()


def put(cloud: Cloud) -> None:
    resources: dict[str, dict[str, Any]] = {}
    network = f"projects/{PROJECT}/global/networks/default"
    if cloud.settings.default_network:
        resources[network] = {"name": "default", "autoCreateSubnetworks": True, "mtu": 1460}
        for region, cidr in SUBNETS.items():
            resources[f"projects/{PROJECT}/regions/{region}/subnetworks/default"] = {
                "name": "default",
                "network": network,
                "ipCidrRange": cidr,
                "region": region,
            }
        resources |= json.loads(TEXT)["walls"]  # SSH is open to everybody
    for name in NAMES:
        resources |= json.loads(TEXT.replace("@NAME@", name))["stranger"]
    cloud.resources |= resources
