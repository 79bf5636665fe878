"""The options of the provider `aws`, and the offer of a launch."""

from typing import Literal

from cluster.core.model.value import Value
from cluster.providers._cloud.launch import CloudOffer
from cluster.providers._cloud.options import CloudOptions

InterfaceKind = Literal["interface", "efa", "efa-only"]


class AwsOptions(CloudOptions, frozen=True, kw_only=True):
    """The options of the provider `aws`.

    Args:
        efa: Elastic Fabric Adapters, one for each network card.
        elastic_ip: an Elastic IP for each machine; those with several EFA interfaces get no other
            public address. It costs money until `down` or `gc`, also if the machine ended by
            itself.
        reservation: id of a capacity reservation that the machines use, such as `cr-0123`.
        block: id of a Capacity Block that they use; they end 30 minutes before it does, those of an
            UltraServer 60.
    """

    efa: bool = False
    elastic_ip: bool = False
    reservation: str = ""
    block: str = ""
    user: str = "ubuntu"


class CardInterface(Value, frozen=True, kw_only=True):
    """A network interface of a machine, on one of its cards."""

    card: int
    device: int
    kind: InterfaceKind

    @property
    def has_address(self) -> bool:
        return self.kind != "efa-only"


class AwsOffer(CloudOffer, frozen=True, kw_only=True):
    """What a launch would create, in every detail."""

    vpc: str  # id of the VPC; the launch creates one, if empty
    image: str  # id of the machine image
    root: str  # device name of the image's root disk
    disk: int  # size of the root disk, in GiB
    cores: int  # of each machine
    interfaces: tuple[CardInterface, ...] = ()  # of a machine with EFA; else one ordinary one
    is_block: bool = False
    packages: tuple[str, ...] = ()  # to install at the first boot, because the image lacks them
