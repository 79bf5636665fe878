"""The options of the provider `gcp`, and what it offers for them."""

from __future__ import annotations

from cluster.providers._cloud.launch import CloudOffer
from cluster.providers._cloud.options import CloudOptions

DEFAULT = "default"  # the network that a project begins with


class GcpOptions(CloudOptions, frozen=True, kw_only=True):
    """The options of the provider `gcp`.

    Args:
        project: that pays; the environment's or the credentials', if empty.
        endpoint: address of another cloud with the same interface; it asks for no credentials.
        network: to put the machines into; without a default one, one is made and removed again.
        tier1: Tier_1 networking where the type has it; its extra price is not in the plan's.
        allow_retired: ask also for accelerators that Google took away.

    """

    project: str = ""
    endpoint: str = ""
    network: str = DEFAULT
    tier1: bool = False
    allow_retired: bool = False
    user: str = "cluster"


class GcpOffer(CloudOffer, frozen=True, kw_only=True):
    """What would be created, decided to the last detail.

    Args:
        project: that pays.
        region: of all of it.
        zones: where to try, one after another.
        instance: the machine type.
        network: the name of the network; one of our own is still to be made, if empty.
        subnet: the name of the subnet; the network has one for every region, if empty.
        image: path of the machine image.
        disk: size of the root disk, in GiB.
        accelerator: Google's name of what is attached to each machine; empty, if nothing is.
        accelerators: how many of them.
        tier1: they have Tier_1 networking.

    """

    project: str
    region: str
    zones: tuple[str, ...]
    instance: str
    network: str
    subnet: str = ""
    image: str
    disk: int
    accelerator: str = ""
    accelerators: int = 0
    tier1: bool = False
