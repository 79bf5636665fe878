"""The options of the provider `aws`, and what it offers for them."""

from __future__ import annotations

from cluster.core.model.value import Value
from cluster.providers._cloud.launch import CloudOffer
from cluster.providers._cloud.options import CloudOptions


class AwsOptions(CloudOptions, frozen=True, kw_only=True):
    """The options of the provider `aws`.

    Args:
        efa: Elastic Fabric Adapters, one for each network card.
        elastic_ip: an Elastic IP for each machine; those with several EFA interfaces get no other
            public address. It costs money until `down` or `gc`, also if the machine ended by
            itself.

    """

    efa: bool = False
    elastic_ip: bool = False
    user: str = "ubuntu"


class ZoneSubnet(Value, frozen=True, kw_only=True):
    """Where machines could be.

    Args:
        zone: the zone.
        subnet: in it; it is still to be made, if empty.

    """

    zone: str
    subnet: str = ""


class AwsOffer(CloudOffer, frozen=True, kw_only=True):
    """What would be created, decided to the last detail.

    Args:
        region: of all of it.
        vpc: the virtual network; it is still to be made, if empty.
        sites: where to try, one after another.
        image: id of the machine image.
        root: name of its root disk.
        disk: size of it, in GiB.
        cores: of a machine.
        interfaces: how many EFA interfaces; none means an ordinary one.
        packages: that are installed as the machines come up, because the image lacks them.

    """

    region: str
    vpc: str
    sites: tuple[ZoneSubnet, ...]
    image: str
    root: str
    disk: int
    cores: int
    interfaces: int
    packages: tuple[str, ...] = ()
