"""The options of the provider `aws`, and the offer of a launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from cluster.core.model.value import Value
from cluster.providers._cloud.launch import CloudOffer
from cluster.providers._cloud.options import CloudOptions

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import InstanceTypeInfoTypeDef, NetworkCardInfoTypeDef


InterfaceKind = Literal["interface", "efa", "efa-only"]
NAMES: dict[InterfaceKind, str] = {"interface": "ENA", "efa": "EFA", "efa-only": "EFA-only"}


class CardInterface(Value, frozen=True, kw_only=True):
    """A network interface of a machine."""

    card: int
    device: int
    kind: InterfaceKind

    @property
    def has_address(self) -> bool:
        return self.kind != "efa-only"


def cards_of(kind: InstanceTypeInfoTypeDef) -> Sequence[NetworkCardInfoTypeDef]:
    return kind.get("NetworkInfo", {}).get("NetworkCards", ())


def efa_layout(kind: InstanceTypeInfoTypeDef) -> tuple[CardInterface, ...]:
    """Return the interfaces of a machine that uses all its Elastic Fabric Adapters."""
    network = kind.get("NetworkInfo", {})
    cards = {card.get("NetworkCardIndex", n): card for n, card in enumerate(cards_of(kind))}
    first = network.get("DefaultNetworkCardIndex", 0)
    if len(cards) <= 1:
        return (CardInterface(card=first, device=0, kind="efa"),)
    most = network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 1)
    adapters = [
        CardInterface(card=index, device=int(index == first), kind=carried)
        for index, card in sorted(cards.items())
        if (carried := adapter_of(card))
        and (index != first or card.get("MaximumNetworkInterfaces", 1) > 1)
    ]
    return (CardInterface(card=first, device=0, kind="interface"), *adapters[:most])


def adapter_of(card: NetworkCardInfoTypeDef) -> InterfaceKind | None:
    kinds = card.get("InterfaceTypes", ())
    return "efa-only" if "efa-only" in kinds else "efa" if "efa" in kinds else None


def layout_line(interfaces: Iterable[CardInterface]) -> str:
    """Return a layout in words, such as `17 network card(s): 1 ENA + 16 EFA-only`."""
    several = tuple(interfaces)
    counts = Counter(NAMES[interface.kind] for interface in several)
    kinds = " + ".join(f"{count} {name}" for name, count in counts.items())
    return f"{len({interface.card for interface in several})} network card(s): {kinds}"


class AwsOptions(CloudOptions, frozen=True, kw_only=True):
    """The options of the provider `aws`.

    Args:
        efa: Elastic Fabric Adapters, one for each network card.
        elastic_ip: an Elastic IP for each machine; those with several EFA interfaces get no other
            public address. It costs money until `down` or `gc`, also if the machine ended by
            itself.
        reservation: id of a capacity reservation that the machines use, such as `cr-0123`.
        block: id of a Capacity Block that they use; they end 30 minutes before it does.
    """

    efa: bool = False
    elastic_ip: bool = False
    reservation: str = ""
    block: str = ""
    user: str = "ubuntu"


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
