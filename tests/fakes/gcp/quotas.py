"""How much of everything there may be, and is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.fakes.gcp.catalog import OWN_CPUS, PROJECT, QUOTA_OF_GPU, family, region_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fakes.gcp.cloud import Cloud

ENOUGH = 1_000_000.0  # of every quota that a test has not set


class Quotas:
    """The quotas of a cloud; a region that is empty means the whole project."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def limit(self, region: str, metric: str) -> float:
        """Return how much there may be of something."""
        return self._cloud.settings.quotas.get(f"{region} {metric}".strip(), ENOUGH)

    def remainder(self, region: str, metric: str) -> float:
        """Return how much more there may be of something."""
        return self.limit(region, metric) - self.used(region)[metric]

    def used(self, region: str) -> Counter[str]:
        """Count what there is."""
        policies = [
            resource
            for path, resource in self._cloud.resources.items()
            if "/resourcePolicies/" in path and resource["region"] == region
        ]
        networks = [path for path in self._cloud.resources if "/global/networks/" in path]
        counts: Counter[str] = Counter(AFFINITY_GROUPS=len(policies), NETWORKS=len(networks))
        for life in self._cloud.lives.values():
            zone = life.path.split("/")[3]
            if region in ("", region_of(zone)):
                counts.update(self.needs(zone, life.instance))
        return counts

    def needs(self, zone: str, properties: Mapping[str, Any]) -> Counter[str]:
        """Tell what an instance counts for."""
        name = str(properties["machineType"]).rpartition("/")[2]
        kind = self._cloud.resources[f"projects/{PROJECT}/zones/{zone}/machineTypes/{name}"]
        # "About Flex-start VMs": they count as spot machines do
        model = properties.get("scheduling", {}).get("provisioningModel")
        spot = model in ("SPOT", "FLEX_START")
        region = region_of(zone)

        def counted(metric: str, normal: str) -> str:
            """Spot machines count as normal ones where they have no quota of their own."""
            spot_metric = f"PREEMPTIBLE_{metric}"
            return spot_metric if spot and self.limit(region, spot_metric) else normal

        cpus = f"{family(name).upper()}_CPUS" if family(name) in OWN_CPUS else "CPUS"
        needed_counts: Counter[str] = Counter(INSTANCES=1)
        needed_counts[counted("CPUS", cpus)] = kind["guestCpus"]
        if any(nic.get("accessConfigs") for nic in properties["networkInterfaces"]):
            needed_counts["IN_USE_ADDRESSES"] = 1
        for gpu, count in gpus_of(kind, properties):
            needed_counts[counted(QUOTA_OF_GPU[gpu], QUOTA_OF_GPU[gpu])] = count
            needed_counts["GPUS_ALL_REGIONS"] = count
        return needed_counts


def gpus_of(kind: Mapping[str, Any], properties: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the accelerators of an instance: those of its type, or those that are attached."""
    type_gpus = [
        (accelerator["guestAcceleratorType"], accelerator["guestAcceleratorCount"])
        for accelerator in kind.get("accelerators", [])
    ]
    return type_gpus or [
        (accelerator["acceleratorType"].rpartition("/")[2], accelerator["acceleratorCount"])
        for accelerator in properties.get("guestAccelerators", [])
    ]
