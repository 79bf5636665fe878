"""Rates of network interfaces, as hosts report them, each with its source."""

from cluster.core.model.hosts import Interface, Link
from cluster.core.pcie import slot_bandwidth
from cluster.core.units import format_rate


def link(interface: Interface) -> Link | None:
    """Return the link of a network interface, as the kernel of its host reports it.

    The PCIe slot's rate counts if it is lower; None if the kernel reports no rate.
    """
    if not interface.speed or not interface.mtu:
        return None
    rate, source = interface.speed, f"Linux: {interface.name}, {format_rate(interface.speed)}"
    slot = slot_bandwidth(interface.slot)
    if slot and slot.rate < rate:
        rate, source = slot.rate, f"{source}, slot: {slot.source}"
    return Link(rate=rate, mtu=interface.mtu, flow=interface.flow or None, source=source)
