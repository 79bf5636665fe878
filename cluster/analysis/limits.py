"""Figures of hardware, each with its direction and its source; what hosts say becomes limits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cluster.model import Figure, Link
from cluster.units import format_rate

if TYPE_CHECKING:
    from cluster.model import Interface


# One lane, by the transfers per second of its generation: 8 of 10 bits are data in generations 1
# and 2, 128 of 130 in 3 to 5; 6 and later send flits, of which 242 of 256 bytes are packets.
LANES = {
    2.5e9: Figure(rate=2.5e9 / 8 * 8 / 10, source="PCI Express Base Specification 1.1, 4.2"),
    5.0e9: Figure(rate=5.0e9 / 8 * 8 / 10, source="PCI Express Base Specification 2.1, 4.2"),
    8.0e9: Figure(rate=8.0e9 / 8 * 128 / 130, source="PCI Express Base Specification 3.1, 4.2"),
    16.0e9: Figure(rate=16.0e9 / 8 * 128 / 130, source="PCI Express Base Specification 4.0, 4.2"),
    32.0e9: Figure(rate=32.0e9 / 8 * 128 / 130, source="PCI Express Base Specification 5.0, 4.2"),
    64.0e9: Figure(rate=64.0e9 / 8 * 242 / 256, source="PCI Express Base Specification 6.0, 4.2"),
}
# One NVLink, by the architecture of the GPU.
NVLINKS = {
    "Pascal": Figure(rate=20e9, source="NVIDIA P100 white paper: 4 links, 160 GB/s both ways"),
    "Volta": Figure(rate=25e9, source="NVIDIA V100 white paper: 6 links, 300 GB/s both ways"),
    "Ampere": Figure(rate=25e9, source="NVIDIA A100 white paper: 12 links, 600 GB/s both ways"),
    "Hopper": Figure(rate=25e9, source="NVIDIA H100 white paper: 18 links, 900 GB/s both ways"),
    "Blackwell": Figure(rate=50e9, source="NVIDIA Blackwell brief: 18 links, 1.8 TB/s both ways"),
}
SPEEDS = dict(enumerate(LANES, 1))  # by the generation
_SLOT = re.compile(r"([\d.]+) GT/s(?: PCIe)? x(\d+)")


def slot(generation: str, width: str) -> str:
    """Say a PCIe slot in Linux's words.

    Args:
        generation: such as `3`.
        width: in lanes, such as `16`.

    Returns:
        `8.0 GT/s PCIe x16` for those; empty for words that are no numbers we know.

    """
    speed = SPEEDS.get(int(generation)) if generation.isdigit() else None
    return f"{speed / 1e9:.1f} GT/s PCIe x{width}" if speed and width.isdigit() else ""


def pcie(slot: str) -> Figure | None:
    """Give what a PCIe slot carries in one direction, before its packets' headers.

    Args:
        slot: speed and width in use, as Linux says them: `8.0 GT/s PCIe x16`.

    Returns:
        15.75 GB/s for that one; none for words that say nothing.

    """
    match = _SLOT.fullmatch(slot)
    lane = LANES.get(float(match[1]) * 1e9) if match else None
    if match is None or lane is None:
        return None
    return Figure(rate=lane.rate * int(match[2]), source=f"{slot}: {lane.source}")


def nvlink(architecture: str, links: int) -> Figure | None:
    """Give what a GPU's NVLinks carry together in one direction.

    Args:
        architecture: of the GPU, such as `Hopper`.
        links: that are up.

    Returns:
        450 GB/s for 18 of that one; none for an architecture or number that says nothing.

    """
    each = NVLINKS.get(architecture)
    if each is None or links < 1:
        return None
    return Figure(
        rate=each.rate * links, source=f"{links} x NVLink of {architecture}: {each.source}"
    )


def link(interface: Interface) -> Link | None:
    """Give what a network interface can do, as its host's kernel knows it.

    Args:
        interface: of the host.

    Returns:
        Its rate, or that of its slot, if that is slower; none if the kernel knows no rate.

    """
    if not interface.speed or not interface.mtu:
        return None
    said = f"Linux: {interface.name}, {format_rate(interface.speed)}"
    slot = pcie(interface.slot)
    if slot is None or slot.rate >= interface.speed:
        return Link(
            rate=interface.speed, mtu=interface.mtu, flow=interface.flow or None, source=said
        )
    return Link(
        rate=slot.rate,
        mtu=interface.mtu,
        flow=interface.flow or None,
        source=f"{said}, in a slot of {slot.source}",
    )
