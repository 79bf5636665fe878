"""Machine images of Google: image families, which name their newest image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.errors import SpecError
from cluster.providers._cloud.api_errors import Failure

if TYPE_CHECKING:
    from google.cloud.compute_v1.types.compute import Image

    from cluster.providers.gcp.api import Project

UBUNTU, LEARNING = "ubuntu-os-cloud", "deeplearning-platform-release"
INTEL = "X86_64"  # also what older images mean that name no architecture
FAMILIES = {INTEL: "ubuntu-2404-lts-amd64", "ARM64": "ubuntu-2404-lts-arm64"}
# Not 22.04: its Python is 3.10, and cluster needs 3.11 or newer.
WITH_DRIVERS = 'family eq "common-cu.*-ubuntu-24.*-nvidia.*"'


def choose(project: Project, requested: str, architecture: str, *, gpus: bool) -> Image:
    """Find the image `PROJECT/FAMILY` or of a path; chosen for the machines, if empty.

    SpecError: there is no such image, or it is for another architecture.
    """
    image = (
        _requested_image(project, requested)
        if requested
        else _own(project, architecture, gpus=gpus)
    )
    if (made_for := image.architecture or INTEL) != architecture:
        raise SpecError(
            f"The image {image.name} is for {made_for} machines, not {architecture}.",
            remedy="Leave --image out, or choose one that fits.",
        )
    return image


def path(image: Image) -> str:
    """Return the path of an image, as the `source_image` of a disk."""
    return image.self_link[image.self_link.index("projects/") :]


def _own(project: Project, architecture: str, *, gpus: bool) -> Image:
    if gpus:
        images: tuple[Image, ...] = project.all("images", project=LEARNING, filter=WITH_DRIVERS)
        current = [image for image in images if image.deprecated.state in ("", "ACTIVE")]
        if not current:
            raise SpecError(
                f"{LEARNING} has no image with drivers.", remedy="Say which: --image PROJECT/FAMILY"
            )
        return max(current, key=lambda image: image.creation_timestamp)
    return _newest(project, UBUNTU, FAMILIES[architecture])


def _requested_image(project: Project, requested: str) -> Image:
    words = requested.removeprefix("projects/").split("/")
    if len(words) == 2:  # noqa: PLR2004 - a project and a family
        return _newest(project, words[0], words[1])
    if words[1:3] != ["global", "images"]:
        raise SpecError(
            f"--image {requested} is not an image of Google.",
            remedy="Write PROJECT/FAMILY, or projects/PROJECT/global/images/NAME",
        )
    try:
        image: Image = project.call("images", "get", project=words[0], image=words[3])
    except Failure as failure:
        raise _none(failure, requested) from failure
    return image


def _newest(project: Project, project_: str, family: str) -> Image:
    try:
        image: Image = project.call("images", "get_from_family", project=project_, family=family)
    except Failure as failure:
        raise _none(failure, f"{project_}/{family}") from failure
    return image


def _none(failure: Failure, image: str) -> Exception:
    if failure.kind != "missing":
        return failure
    return SpecError(
        f"There is no image {image}.",
        means="It does not exist, or its project does not let you have it.",
        remedy="Write PROJECT/FAMILY, or projects/PROJECT/global/images/NAME",
    )
