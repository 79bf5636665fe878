"""Where machines are in the network, as far as Google tells it."""

from collections.abc import Mapping
from typing import Any

from tests.fakes.gcp.values import Settings

TYPES = ("a3-highgpu-8g", "a3-megagpu-8g", "a3-ultragpu-8g", "a4-", "a4x-", "h4d-")
NODES = ("cluster", "block", "subblock", "host")


def status(settings: Settings, instance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `resourceStatus` of an instance; it is empty where Google reports nothing."""
    kind = instance["machineType"].rpartition("/")[2]
    if instance["status"] != "RUNNING" or not (
        instance["resourcePolicies"] or kind.startswith(TYPES)
    ):
        return {}
    number = int(instance["name"].rpartition("-")[2]) - 1
    if settings.locations:
        nodes = settings.locations[number]
    else:
        nodes = ("us-central1-a-cluster-abcd", "b1", "s1", f"h{number}")
    place: dict[str, Any] = {"physicalHost": "/" + "/".join(nodes[1:])}
    if settings.physical_topology:
        place["physicalHostTopology"] = dict(zip(NODES, nodes, strict=True))
    return {"resourceStatus": place}
