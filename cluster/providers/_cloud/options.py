"""The options that all clouds have."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec, EnvironmentOptions

TTL = 2 * 3600.0  # seconds until machines end by themselves, if the spec does not say


class CloudOptions(EnvironmentOptions, frozen=True, kw_only=True):
    """The options that every cloud has.

    Args:
        zones: to try one after another, such as `us-east-1a,us-east-1b` or `a,b`.
        regions: to try one after another, such as `us-east-1,us-west-2`; what one lacks is in the
            plan.
        subnet: of the machines; one of the default network, if empty.
        allow: network that may connect by SSH, such as `192.0.2.0/24`; only your own address, if
            empty.
        public: machines have public addresses; 0: they are reached at their private ones.
        jump: hosts on the way to private addresses, such as `me@bastion`, as `ssh -J` takes them;
            machines have no public addresses then.
        mount: file systems that every host mounts, such as `nfs:10.0.0.9:/data:/shared`.
        threads_per_core: 1 switches hyper-threading off; as the type has it, if 0.
        disk: size of the root disk in GiB; as the image has it, if that is more.
        user: login user of the image, or the one that the cloud creates.
        wait: seconds for all machines to run.
        ready_within: seconds for all of them to answer by SSH; large types take longer.
    """

    zones: str = ""
    regions: str = ""
    subnet: str = ""
    allow: str = ""
    public: bool = True
    jump: str = ""
    mount: str = ""
    threads_per_core: Literal[0, 1, 2] = 0
    disk: int = 0
    user: str = ""
    wait: float = 300.0
    ready_within: float = 300.0

    @property
    def is_public(self) -> bool:
        """Whether machines get public addresses; behind a jump host they need none."""
        return self.public and not self.jump


def region_in(places: Iterable[str], zone: re.Pattern[str], region: re.Pattern[str]) -> str:
    """Return the first region that zones or regions name; empty if none does."""
    for place in places:
        if match := zone.fullmatch(place):
            return match[1]
        if region.fullmatch(place):
            return place
    return ""


def refuse_zone(spec: ClusterSpec, cloud: str, *, zone: str, region: str) -> None:
    """Refuse what a cloud has no zone of (SpecError), with a zone and a region as examples."""
    if spec.zone:
        raise SpecError(
            f"--zone {spec.zone} is not a zone of {cloud}.",
            remedy=f"Write a zone or a region: --zone {zone}, --zone {region}",
        )


def words(text: str) -> list[str]:
    """Split a list that is separated by commas, such as `a, b`, without empty words."""
    return [word.strip() for word in text.split(",") if word.strip()]


def requested_zones(first: str, text: str, prefix: str) -> list[str]:
    """Return the zone to try first, if any, and those of a list, where `a` ends the prefix."""
    zones = [prefix + word if len(word) == 1 else word for word in words(text)]
    return list(dict.fromkeys([*filter(None, [first]), *zones]))


def not_offered_error(machine: str, place: str, zones: Sequence[str], advice: str) -> SpecError:
    """Return the error for machines that only other zones have; `otherwise` if none has them."""
    return SpecError(
        f"{machine} is not offered in {place}.",
        remedy=f"It is in: {', '.join(zones)}; use --zone {zones[0]}" if zones else advice,
    )


def name_taken_error(name: str, place: str, region: str = "") -> SpecError:
    """Return the error for a name that a launch from another machine already uses."""
    return SpecError(
        f"There is a cluster {name!r} of yours in {place} already.",
        means="It was launched from another machine, or its journal is gone; it is left as it is.",
        remedy=f"Choose another name, or take it down: cluster down {name}"
        f"{f' --region {region}' if region else ''}",
    )
