"""Machine images of Amazon: public aliases (SSM parameters), which name the newest image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.errors import SpecError
from cluster.providers._cloud.api_errors import Failure

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import ImageTypeDef, InstanceTypeInfoTypeDef

    from cluster.providers.aws.api import Region

UBUNTU = "/aws/service/canonical/ubuntu/server/24.04/stable/current/{}/hvm/ebs-gp3/ami-id"
# Has NVIDIA's open driver, libfabric with EFA and Amazon's Open MPI (release notes: efa_version).
# Not 22.04: its Python is 3.10 (DLAMI release notes), and cluster needs 3.11 or newer.
LEARNING = "/aws/service/deeplearning/ami/{}/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
# Has torch too, in a Python of its own ("python_location" in the DLAMI release notes of PyTorch 2.9
# and 2.12). Its alias contains the version; GetParameters takes ten names.
PYTORCH, PYTORCH_PYTHON = "pytorch", "/opt/pytorch/bin/python"
PYTORCH_ALIAS = (
    "/aws/service/deeplearning/ami/{}/oss-nvidia-driver-gpu-pytorch-2.{}-ubuntu-24.04/latest/ami-id"
)
PYTORCH_MINORS = range(9, 19)
PROPRIETARY = (
    "/aws/service/deeplearning/ami/x86_64/base-proprietary-nvidia-driver-gpu-ubuntu-22.04/"
    "latest/ami-id"
)
# V100 (p3) and M60 (g3) need NVIDIA's proprietary kernel modules: the open ones begin with Turing
# (developer.nvidia.com/blog, "NVIDIA Transitions Fully Towards Open-Source GPU Kernel Modules",
# 2024-07-17). Branch 580 is the last for Maxwell to Volta (NVIDIA, "UNIX graphics feature
# deprecation schedule"), 470 for the K80 of p2 (NVIDIA, "Current graphics driver releases"), and no
# image of Amazon has 470.
BEFORE_TURING, TOO_OLD = ("p3", "g3"), ("p2",)
OLD_UBUNTU = "ubuntu-22.04", "ubuntu/server/22.04"  # in an alias; the image's Python is 3.10
PYTHON = ("python3.11", "python3.11-venv")  # packages that these images need
CANONICAL = {"x86_64": "amd64", "arm64": "arm64"}  # Amazon's architectures, as Canonical names them


def choose(
    region: Region, request: str, kind: InstanceTypeInfoTypeDef, *, efa: bool
) -> tuple[ImageTypeDef, tuple[str, ...]]:
    """Find the image of a launch, and the Ubuntu packages to install before the first login.

    `request` is an id (then none are installed), an alias, or `pytorch`; empty, the machines
    decide.
    SpecError: there is no such image, or it is for another architecture.
    """
    architectures = kind.get("ProcessorInfo", {}).get("SupportedArchitectures", ())
    if request == PYTORCH:
        choice, image_id = request, _newest_pytorch(region, kind)
    else:
        choice = request or _own(kind, efa=efa)
        image_id = choice if choice.startswith("ami-") else _alias(region, choice)
    try:
        images: tuple[ImageTypeDef, ...] = region.all(
            "describe_images", "Images", ImageIds=[image_id]
        )
    except Failure as failure:
        if failure.kind != "missing" and not failure.code.startswith("InvalidAMIID"):
            raise
        images = ()
    if not images or images[0].get("State", "available") != "available":
        raise SpecError(
            f"There is no image {image_id} in {region.name}.",
            means="An image belongs to one region.",
            remedy="Leave --image out, or give one of this region: --image ami-...",
        )
    if images[0]["Architecture"] not in architectures:
        raise SpecError(
            f"{image_id} is for {images[0]['Architecture']}; "
            f"{kind['InstanceType']} is {' or '.join(architectures)}.",
            remedy="Leave --image out, or choose one that fits.",
        )
    return images[0], PYTHON if any(release in choice for release in OLD_UBUNTU) else ()


def _alias(region: Region, name: str) -> str:
    """Read which image a public alias names now; image names are refused, as anyone can use any."""
    if not name.startswith("/"):
        raise SpecError(
            f"--image {name} is neither an id nor an alias.",
            means="Anybody may give an image any name, so names are not looked up.",
            remedy="Write --image ami-..., an SSM parameter: --image /aws/service/..., "
            f"or --image {PYTORCH}",
        )
    parameters = region.call("get_parameters", "Parameters", service="ssm", Names=[name])[
        "Parameters"
    ]
    if not parameters:
        raise SpecError(f"{region.name} has no image {name}.", remedy="Choose one: --image ami-...")
    return str(parameters[0]["Value"])


def _newest_pytorch(region: Region, kind: InstanceTypeInfoTypeDef) -> str:
    _check_open_driver(kind)
    architecture = _architecture(kind)
    names = [PYTORCH_ALIAS.format(architecture, minor) for minor in PYTORCH_MINORS]
    answer = region.call("get_parameters", "Parameters", service="ssm", Names=names)["Parameters"]
    images = {str(parameter["Name"]): str(parameter["Value"]) for parameter in answer}
    if not images:
        raise SpecError(
            f"{region.name} has no image with PyTorch 2.{PYTORCH_MINORS[0]} or newer.",
            remedy="Give one: --image ami-..., --option python=PATH",
        )
    return next(images[name] for name in reversed(names) if name in images)


def _check_open_driver(kind: InstanceTypeInfoTypeDef) -> None:
    if kind["InstanceType"].startswith((*BEFORE_TURING, *TOO_OLD)):
        raise SpecError(
            f"The images with PyTorch have no driver for the GPUs of {kind['InstanceType']}.",
            means="They have NVIDIA's open driver, which begins with Turing.",
            remedy="Leave --image out, or take a newer type, such as --instance g4dn.12xlarge",
        )


def _architecture(kind: InstanceTypeInfoTypeDef) -> str:
    names = kind.get("ProcessorInfo", {}).get("SupportedArchitectures", ())
    return next((architecture for architecture in CANONICAL if architecture in names), "x86_64")


def root_disk(image: ImageTypeDef) -> tuple[str, int]:
    """Return the device of an image's root disk, and its size in GiB; 0 if that is not known."""
    root, disks = image.get("RootDeviceName", "/dev/sda1"), image.get("BlockDeviceMappings", ())
    volumes = [disk.get("Ebs", {}) for disk in disks if disk.get("DeviceName") == root]
    return root, volumes[-1].get("VolumeSize", 0) if volumes else 0


def _own(kind: InstanceTypeInfoTypeDef, *, efa: bool) -> str:
    """Choose an image for a machine type: only some images have GPU drivers or EFA."""
    architecture = _architecture(kind)
    gpus = kind.get("GpuInfo", {}).get("Gpus", ())
    nvidia = any(gpu.get("Manufacturer", "NVIDIA").upper() == "NVIDIA" for gpu in gpus)
    if nvidia and kind["InstanceType"].startswith(TOO_OLD):
        raise SpecError(
            f"{kind['InstanceType']} has GPUs that no image of Amazon has a driver for any more.",
            means="NVIDIA's drivers dropped the K80 after branch 470.",
            remedy="Take --instance p3.2xlarge or g4dn.12xlarge, or an image of your own: "
            "--image ami-...",
        )
    if nvidia and kind["InstanceType"].startswith(BEFORE_TURING):
        return PROPRIETARY
    if nvidia or efa:
        return LEARNING.format(architecture)
    return UBUNTU.format(CANONICAL[architecture])
