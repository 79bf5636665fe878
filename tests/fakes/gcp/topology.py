"""Where machines are in the network, as far as Google tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fakes.gcp.values import Settings

TYPES = ("a3-highgpu-8g", "a3-megagpu-8g", "a3-ultragpu-8g", "a4-", "a4x-", "h4d-")
NODES = ("cluster", "block", "subblock", "host")


def status(settings: Settings, one: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `resourceStatus` of an instance; it is empty where Google reports nothing."""
    kind = one["machineType"].rpartition("/")[2]
    if one["status"] != "RUNNING" or not (one["resourcePolicies"] or kind.startswith(TYPES)):
        return {}
    number = int(one["name"].rpartition("-")[2]) - 1
    if settings.locations:
        nodes = settings.locations[number]
    else:
        nodes = ("us-central1-a-cluster-abcd", "b1", "s1", f"h{number}")
    said: dict[str, Any] = {"physicalHost": "/" + "/".join(nodes[1:])}
    if settings.physical_topology:
        said["physicalHostTopology"] = dict(zip(NODES, nodes, strict=True))
    return {"resourceStatus": said}
