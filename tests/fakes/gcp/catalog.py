"""What Google offers: zones, machine types, accelerators, images, and how much of each."""

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
WITH_GPUS = {  # processors, GiB, accelerator, how many
    "g2-standard-4": (4, 16, "nvidia-l4", 1),
    "g2-standard-24": (24, 96, "nvidia-l4", 2),
    "g2-standard-48": (48, 192, "nvidia-l4", 4),
    "g2-standard-96": (96, 384, "nvidia-l4", 8),
    "a2-highgpu-1g": (12, 85, "nvidia-tesla-a100", 1),
    "a2-highgpu-2g": (24, 170, "nvidia-tesla-a100", 2),
    "a2-highgpu-4g": (48, 340, "nvidia-tesla-a100", 4),
    "a2-highgpu-8g": (96, 680, "nvidia-tesla-a100", 8),
    "a3-highgpu-1g": (26, 234, "nvidia-h100-80gb", 1),
    "a3-highgpu-8g": (208, 1872, "nvidia-h100-80gb", 8),
    "a3-megagpu-8g": (208, 1872, "nvidia-h100-mega-80gb", 8),
    "a3-ultragpu-8g": (224, 2952, "nvidia-h200-141gb", 8),
    "a4-highgpu-8g": (224, 3968, "nvidia-b200", 8),
    "a4x-highgpu-4g": (140, 884, "nvidia-gb200", 4),
}
ACCELERATORS = {
    "nvidia-tesla-t4": ("NVIDIA T4", 4),
    "nvidia-tesla-v100": ("NVIDIA V100", 8),
    "nvidia-l4": ("NVIDIA L4", 8),
    "nvidia-tesla-a100": ("NVIDIA A100 40GB", 16),
    "nvidia-h100-80gb": ("NVIDIA H100 80GB", 8),
    "nvidia-h100-mega-80gb": ("NVIDIA H100 80GB MEGA", 8),
    "nvidia-h200-141gb": ("NVIDIA H200 141GB", 8),
    "nvidia-b200": ("NVIDIA B200", 8),
    "nvidia-gb200": ("NVIDIA GB200", 4),
}
RETIRED = {"nvidia-tesla-k80": ("NVIDIA Tesla K80", 8)}
TO_N1 = {"nvidia-tesla-t4", "nvidia-tesla-v100", "nvidia-tesla-k80"}  # all others come with a type
QUOTA_OF_GPU = {
    "nvidia-tesla-t4": "NVIDIA_T4_GPUS",
    "nvidia-tesla-v100": "NVIDIA_V100_GPUS",
    "nvidia-tesla-k80": "NVIDIA_K80_GPUS",
    "nvidia-l4": "NVIDIA_L4_GPUS",
    "nvidia-tesla-a100": "NVIDIA_A100_GPUS",
    "nvidia-h100-80gb": "NVIDIA_H100_GPUS",
    "nvidia-h100-mega-80gb": "NVIDIA_H100_MEGA_GPUS",
    "nvidia-h200-141gb": "NVIDIA_H200_GPUS",
    "nvidia-b200": "NVIDIA_B200_GPUS",
    "nvidia-gb200": "NVIDIA_GB200_GPUS",
}
RDMA_NICS = {"roce": "MRDMA", "falcon": "IRDMA"}  # by the end of a network profile
PROFILES = (
    *("us-central1-b-vpc-roce", "europe-west4-a-vpc-roce"),
    *("us-central1-a-vpc-falcon", "us-central1-b-vpc-falcon"),
)
MOST_NICS = {  # gVNICs, those for RDMA: cluster-toolkit, examples/machine-learning; H4D: VPC
    "a3-highgpu-8g": (5, 0),
    "a3-megagpu-8g": (9, 0),
    "a3-ultragpu-8g": (2, 8),
    "a4-highgpu-8g": (2, 8),
    "a4x-highgpu-4g": (2, 4),
    "h4d-standard-192": (1, 1),
}
ARM = {"t2a", "a4x"}  # families; the second has NVIDIA's Grace
FIXED = {"h4d"}  # families without live migration
FLEX_START = {"a2", "a3", "a4", "g2", "h4d"}  # families; and how many seconds such machines run
FLEX_SHORTEST, FLEX_LONGEST = 600, 7 * 24 * 3600

OWN_CPUS = {"n2", "c2", "c3", "a2", "t2a"}  # families with a quota of their own
NOT_COMPACT = {"e2", "t2d", "n1", "t2a", "m1", "m2", "m3"}
TIER_1 = {"n2", "n2d", "c2", "c2d", "c3", "c3d"}
FEWEST_FOR_TIER_1 = 30  # processors
IMAGES = (  # project, family, name, architecture, GiB, deprecated
    ("ubuntu-os-cloud", "ubuntu-2404-lts-amd64", "ubuntu-2404-noble-amd64-v20261101", "X86_64", 10),
    ("ubuntu-os-cloud", "ubuntu-2404-lts-arm64", "ubuntu-2404-noble-arm64-v20261101", "ARM64", 10),
    (
        "ubuntu-os-accelerator-images",
        "ubuntu-accelerator-2404-arm64-with-nvidia-580",
        "ubuntu-accelerator-2404-arm64-with-nvidia-580-v20261020",
        "ARM64",
        20,
    ),
    (
        "deeplearning-platform-release",
        "common-cu129-ubuntu-2204-nvidia-580",
        "common-cu129-ubuntu-2204-nvidia-580-v20261020",
        "X86_64",
        50,
    ),
    (
        "deeplearning-platform-release",
        "common-cu129-ubuntu-2404-nvidia-580",
        "common-cu129-ubuntu-2404-nvidia-580-v20261020",
        "X86_64",
        50,
    ),
    (
        "deeplearning-platform-release",
        "common-cu128-ubuntu-2404-nvidia-570",
        "common-cu128-ubuntu-2404-nvidia-570-v20260801",
        "X86_64",
        50,
    ),
)


def region_of(zone: str) -> str:
    """Return the region of a zone."""
    return zone.rpartition("-")[0]


def family(kind: str) -> str:
    """Return the family of a machine type."""
    return kind.partition("-")[0]


def things(*, retired: bool) -> dict[str, dict[str, Any]]:
    """Return all that Google offers, by path."""
    made: dict[str, dict[str, Any]] = {}
    for region, zones in ZONES.items():
        for zone in zones:
            made[f"projects/{PROJECT}/zones/{zone}"] = {
                "name": zone,
                "status": "UP",
                "region": f"projects/{PROJECT}/regions/{region}",
            }
            for name, kind in {**_standard(zone), **_with_gpus(zone)}.items():
                made[f"projects/{PROJECT}/zones/{zone}/machineTypes/{name}"] = kind
            for name, accelerator in _accelerators(zone, retired=retired).items():
                made[f"projects/{PROJECT}/zones/{zone}/acceleratorTypes/{name}"] = accelerator
    for project, of, name, architecture, size in IMAGES:
        made[f"projects/{project}/global/images/{name}"] = {
            "selfLink": f"{LINKS}projects/{project}/global/images/{name}",
            "name": name,
            "family": of,
            "architecture": architecture,
            "diskSizeGb": str(size),
            "status": "READY",
            "creationTimestamp": f"{name[-8:-4]}-{name[-4:-2]}-{name[-2:]}T00:00:00.000-07:00",
        }
    for name in PROFILES:
        made[f"projects/{PROJECT}/global/networkProfiles/{name}"] = {"name": name}
    old = dict(made["projects/ubuntu-os-cloud/global/images/ubuntu-2404-noble-amd64-v20261101"])
    old |= {"name": "ubuntu-2404-noble-amd64-v20270101", "deprecated": {"state": "DEPRECATED"}}
    old["selfLink"] = f"{LINKS}projects/ubuntu-os-cloud/global/images/{old['name']}"
    made[f"projects/ubuntu-os-cloud/global/images/{old['name']}"] = old
    return made


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
        f"{of}-standard-{count}": _kind(f"{of}-standard-{count}", zone, count, count * memory)
        for of, (memory, counts, zones) in STANDARD.items()
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
        for name, (cpus, memory, gpu, count) in WITH_GPUS.items()
    }


def _accelerators(zone: str, *, retired: bool) -> dict[str, dict[str, Any]]:
    there = {**ACCELERATORS, **(RETIRED if retired else {})} if zone in GPU_ZONES else {}
    return {
        name: {"name": name, "zone": zone, "description": text, "maximumCardsPerInstance": most}
        for name, (text, most) in there.items()
    }
