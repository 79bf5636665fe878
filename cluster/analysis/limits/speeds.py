"""Rates of NVLinks and network interfaces, as hosts report them, each with its source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.model.hardware import Figure
from cluster.core.model.hosts import Link
from cluster.core.pcie import slot_bandwidth
from cluster.core.units import format_rate

if TYPE_CHECKING:
    from cluster.core.model.hosts import Interface


# One NVLink, by the architecture of the GPU.
NVLINKS = {
    "Pascal": Figure(rate=20e9, source="NVIDIA P100 white paper: 4 links, 160 GB/s both ways"),
    "Volta": Figure(rate=25e9, source="NVIDIA V100 white paper: 6 links, 300 GB/s both ways"),
    "Ampere": Figure(rate=25e9, source="NVIDIA A100 white paper: 12 links, 600 GB/s both ways"),
    "Hopper": Figure(rate=25e9, source="NVIDIA H100 white paper: 18 links, 900 GB/s both ways"),
    "Blackwell": Figure(rate=50e9, source="NVIDIA Blackwell brief: 18 links, 1.8 TB/s both ways"),
}


def nvlink(architecture: str, links: int) -> Figure | None:
    """Return the rate of a GPU's NVLinks in one direction: 450 GB/s for 18 of Hopper."""
    each = NVLINKS.get(architecture)
    if each is None or links < 1:
        return None
    return Figure(
        rate=each.rate * links, source=f"{links} x NVLink of {architecture}: {each.source}"
    )


def link(interface: Interface) -> Link | None:
    """Return the link of a network interface, as the kernel of its host reports it.

    The PCIe slot's rate counts if it is lower; None if the kernel reports no rate.
    """
    if not interface.speed or not interface.mtu:
        return None
    source = f"Linux: {interface.name}, {format_rate(interface.speed)}"
    slot = slot_bandwidth(interface.slot)
    if slot is None or slot.rate >= interface.speed:
        return Link(
            rate=interface.speed, mtu=interface.mtu, flow=interface.flow or None, source=source
        )
    return Link(
        rate=slot.rate,
        mtu=interface.mtu,
        flow=interface.flow or None,
        source=f"{source}, in a slot of {slot.source}",
    )
