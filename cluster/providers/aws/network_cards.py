"""Which network interfaces a machine gets on which card, from Amazon's description of its type.

EC2 user guide, "Maximize network bandwidth on accelerated instances": the primary interface is an
ENA one at device 0 of the first card; an EFA-only interface at device 1 beside it, and at device 0
of each other card. EFA-only interfaces take no IP address; a type with one card keeps one `efa`
interface, which is both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from cluster.core.model.value import Value

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
