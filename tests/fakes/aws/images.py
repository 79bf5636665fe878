"""The images that there are, and the public parameters that name the newest of each kind."""

from datetime import UTC, datetime
from typing import Any

from moto.ec2.models.amis import Ami

from cluster.core.model.value import Value

CANONICAL = "099720109477"
AMAZON = "898082745236"  # who publishes the deep-learning images; its alias is amazon
ROOT_SIZE = 8  # GiB


class Image(Value, frozen=True, kw_only=True):
    """An image of Ubuntu."""

    id: str
    name: str
    owner: str
    architecture: str
    size: int = ROOT_SIZE  # GiB


class StrictAmi(Ami):
    """An image with an honest root volume: moto gives each one of 15 GiB, that stays."""

    size = ROOT_SIZE
    ena_support = True
    platform_details = "Linux/UNIX"

    @property
    def block_device_mappings(self) -> list[dict[str, Any]]:
        ebs = {
            "SnapshotId": self.ebs_snapshot.id,
            "VolumeSize": self.size,
            "DeleteOnTermination": True,
            "VolumeType": "gp3",
            "Encrypted": False,
        }
        return [{"DeviceName": self.root_device_name, "Ebs": ebs}]


def _ubuntu(number: int, release: str, codename: str, arch: str) -> Image:
    return Image(
        id=f"ami-0c4a0ca1{number:09x}",
        name=f"ubuntu/images/hvm-ssd-gp3/ubuntu-{codename}-{release}-{arch}-server-20261105",
        owner=CANONICAL,
        architecture={"amd64": "x86_64"}.get(arch, arch),
    )


def _learning(number: int, arch: str) -> Image:
    name = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20261101"
    return Image(
        id=f"ami-0d1a0ca1{number:09x}", name=name, owner=AMAZON, architecture=arch, size=75
    )


UBUNTU = {
    ("22.04", "amd64"): _ubuntu(1, "22.04", "jammy", "amd64"),
    ("22.04", "arm64"): _ubuntu(2, "22.04", "jammy", "arm64"),
    ("24.04", "amd64"): _ubuntu(3, "24.04", "noble", "amd64"),
    ("24.04", "arm64"): _ubuntu(4, "24.04", "noble", "arm64"),
}
LEARNING = {"x86_64": _learning(5, "x86_64"), "arm64": _learning(6, "arm64")}
PROPRIETARY = Image(
    id="ami-0d1a0ca1000000007",
    name="Deep Learning Base Proprietary Nvidia Driver GPU AMI (Ubuntu 22.04) 20261101",
    owner=AMAZON,
    architecture="x86_64",
    size=75,
)
PROPRIETARIES = (
    "/aws/service/deeplearning/ami/x86_64/base-proprietary-nvidia-driver-gpu-ubuntu-22.04/latest/"
    "ami-id"
)
PYTORCHES = {
    minor: Image(
        id=f"ami-0d1a0ca1{minor:09x}",
        name=f"Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.{minor} (Ubuntu 24.04) 20261101",
        owner=AMAZON,
        architecture="x86_64",
        size=75,
    )
    for minor in (9, 10, 12)
}
PYTORCH_ALIAS = (
    "/aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.{}-ubuntu-24.04/latest/"
    "ami-id"
)
CANONICALS = "/aws/service/canonical/ubuntu/server/{}/stable/current/{}/hvm/ebs-gp{}/ami-id"
LEARNINGS = "/aws/service/deeplearning/ami/{}/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
ALIASES = {
    CANONICALS.format(release, arch, disk): image.id
    for (release, arch), image in UBUNTU.items()
    for disk in (2, 3)
} | {LEARNINGS.format(arch): image.id for arch, image in LEARNING.items()}
ALIASES[PROPRIETARIES] = PROPRIETARY.id
ALIASES |= {PYTORCH_ALIAS.format(minor): image.id for minor, image in PYTORCHES.items()}


def put(backend: Any) -> None:
    """Put the images into a region."""
    for image in (*UBUNTU.values(), *LEARNING.values(), PROPRIETARY, *PYTORCHES.values()):
        ami = StrictAmi(
            backend,
            image.id,
            name=image.name,
            owner_id=image.owner,
            owner_alias="amazon" if image.owner == AMAZON else None,
            public=True,
            architecture=image.architecture,
            virtualization_type="hvm",
            hypervisor="xen",
            root_device_type="ebs",
            root_device_name="/dev/sda1",
            image_location=f"{image.owner}/{image.name}",
            creation_date=datetime(2026, 11, 5, tzinfo=UTC),
            region_name=f"{backend.region_name}a",
        )
        ami.size = image.size
        backend.amis[image.id] = ami
