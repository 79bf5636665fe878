"""PCIe: what a slot carries, by its generation and width."""

import re

from cluster.core.model.limits import Figure

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
SPEEDS = dict(enumerate(LANES, 1))  # by the generation
_SLOT = re.compile(r"([\d.]+) GT/s(?: PCIe)? x(\d+)")


def slot_name(generation: str, width: str) -> str:
    """Return a PCIe slot as Linux writes it: `8.0 GT/s PCIe x16`; empty if it is not known."""
    speed = SPEEDS.get(int(generation)) if generation.isdigit() else None
    return f"{speed / 1e9:.1f} GT/s PCIe x{width}" if speed and width.isdigit() else ""


def slot_bandwidth(slot: str) -> Figure | None:
    """Return what a PCIe slot, as Linux prints it, carries one way, with packet headers."""
    match = _SLOT.fullmatch(slot)
    lane = LANES.get(float(match[1]) * 1e9) if match else None
    if match is None or lane is None:
        return None
    return Figure(rate=lane.rate * int(match[2]), source=f"{slot}: {lane.source}")
