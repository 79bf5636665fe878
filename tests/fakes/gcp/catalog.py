"""What Google offers: zones, machine types, accelerators, images, and how much of each."""

import tomllib
from pathlib import Path
from typing import Any

LINKS = "https://www.googleapis.com/compute/v1/"

PROJECT = "test-project"
ZONES = {
    "us-central1": ("us-central1-a", "us-central1-b", "us-central1-c"),
    "us-east1": ("us-east1-b", "us-east1-c"),
    "europe-west4": ("europe-west4-a", "europe-west4-b"),
    "europe-west9": (),
}
SUBNETS = {"us-central1": "10.128.0.0/20", "us-east1": "10.142.0.0/20"}
SUBNETS["europe-west4"] = "10.164.0.0/20"
GPU_ZONES = ("us-central1-a", "us-central1-b", "europe-west4-a")
EVERYWHERE = tuple(zone for zones in ZONES.values() for zone in zones)
CENTRAL = ZONES["us-central1"]

STANDARD = {  # family: GiB for each processor, processors, zones
    "e2": (4, (2, 4, 8), EVERYWHERE),
    "n1": (3.75, (1, 2, 4, 8, 16, 32), EVERYWHERE),
    "n2": (4, (2, 4, 8, 16, 32, 48, 64, 80), EVERYWHERE),
    "c2": (4, (4, 8, 16, 30, 60), (*CENTRAL, "us-east1-b", "europe-west4-a")),
    "c3": (4, (4, 8, 22, 44, 88, 176), CENTRAL),
    "t2a": (4, (1, 2, 4, 8), CENTRAL[:2]),
    "h4d": (3.75, (192,), ("us-central1-a", "us-central1-b")),
}
OFFERS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
RETIRED = {"nvidia-tesla-k80"}
TO_N1 = {"nvidia-tesla-t4", "nvidia-tesla-v100", "nvidia-tesla-k80"}  # all others come with a type
QUOTA_OF_GPU = {name: quota for name, (_, _, quota) in OFFERS["accelerators"].items()}
RDMA_NICS = {"roce": "MRDMA", "falcon": "IRDMA"}  # by the end of a network profile
PROFILES = (
    *("us-central1-b-vpc-roce", "europe-west4-a-vpc-roce"),
    *("us-central1-a-vpc-falcon", "us-central1-b-vpc-falcon"),
)
ARM = {"t2a", "a4x"}  # families; the second has NVIDIA's Grace
FIXED = {"h4d"}  # families without live migration
FLEX_START = {"a2", "a3", "a4", "g2", "h4d"}  # families; and how many seconds such machines run
FLEX_SHORTEST, FLEX_LONGEST = 600, 7 * 24 * 3600

OWN_CPUS = {"n2", "c2", "c3", "a2", "t2a"}  # families with a quota of their own
NOT_COMPACT = {"e2", "t2d", "n1", "t2a", "m1", "m2", "m3"}
TIER_1 = {"n2", "n2d", "c2", "c2d", "c3", "c3d"}
FEWEST_FOR_TIER_1 = 30  # processors


def region_of(zone: str) -> str:
    """Return the region of a zone."""
    return zone.rpartition("-")[0]


def family(kind: str) -> str:
    """Return the family of a machine type."""
    return kind.partition("-")[0]


def things(*, retired: bool) -> dict[str, dict[str, Any]]:
    """Return all that Google offers, by path."""
    offers: dict[str, dict[str, Any]] = {}
    for region, zones in ZONES.items():
        for zone in zones:
            offers[f"projects/{PROJECT}/zones/{zone}"] = {
                "name": zone,
                "status": "UP",
                "region": f"projects/{PROJECT}/regions/{region}",
            }
            for name, kind in {**_standard(zone), **_with_gpus(zone)}.items():
                offers[f"projects/{PROJECT}/zones/{zone}/machineTypes/{name}"] = kind
            for name, accelerator in _accelerators(zone, retired=retired).items():
                offers[f"projects/{PROJECT}/zones/{zone}/acceleratorTypes/{name}"] = accelerator
    for project, series, name, architecture, size in OFFERS["images"]:
        offers[f"projects/{project}/global/images/{name}"] = {
            "selfLink": f"{LINKS}projects/{project}/global/images/{name}",
            "name": name,
            "family": series,
            "architecture": architecture,
            "diskSizeGb": str(size),
            "status": "READY",
            "creationTimestamp": f"{name[-8:-4]}-{name[-4:-2]}-{name[-2:]}T00:00:00.000-07:00",
        }
    for name in PROFILES:
        offers[f"projects/{PROJECT}/global/networkProfiles/{name}"] = {"name": name}
    old = dict(offers["projects/ubuntu-os-cloud/global/images/ubuntu-2404-noble-amd64-v20261101"])
    old |= {"name": "ubuntu-2404-noble-amd64-v20270101", "deprecated": {"state": "DEPRECATED"}}
    old["selfLink"] = f"{LINKS}projects/ubuntu-os-cloud/global/images/{old['name']}"
    offers[f"projects/ubuntu-os-cloud/global/images/{old['name']}"] = old
    return offers


def _kind(name: str, zone: str, cpus: int, memory: float) -> dict[str, Any]:
    return {
        "name": name,
        "zone": zone,
        "guestCpus": cpus,
        "memoryMb": int(memory * 1024),
        "isSharedCpu": False,
        "architecture": "ARM64" if family(name) in ARM else "X86_64",
    }


def _standard(zone: str) -> dict[str, dict[str, Any]]:
    return {
        f"{series}-standard-{count}": _kind(
            f"{series}-standard-{count}", zone, count, count * memory
        )
        for series, (memory, counts, zones) in STANDARD.items()
        for count in counts
        if zone in zones
    }


def _with_gpus(zone: str) -> dict[str, dict[str, Any]]:
    if zone not in GPU_ZONES:
        return {}
    return {
        name: {
            **_kind(name, zone, cpus, memory),
            "accelerators": [{"guestAcceleratorType": gpu, "guestAcceleratorCount": count}],
        }
        for name, (cpus, memory, gpu, count) in OFFERS["types"].items()
    }


def _accelerators(zone: str, *, retired: bool) -> dict[str, dict[str, Any]]:
    if zone not in GPU_ZONES:
        return {}
    return {
        name: {"name": name, "zone": zone, "description": text, "maximumCardsPerInstance": most}
        for name, (text, most, _) in OFFERS["accelerators"].items()
        if retired or name not in RETIRED
    }
