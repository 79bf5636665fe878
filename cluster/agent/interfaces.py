"""The network interfaces of this host."""

from __future__ import annotations

import fcntl
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.agent.kernel_files import read_text
from cluster.core.model.hosts import Interface

if TYPE_CHECKING:
    from collections.abc import Iterator


SIOCGIFADDR, SIOCGIFNETMASK = 0x8915, 0x891B  # linux/sockios.h
NETWORK = Path("/sys/class/net")


def list_interfaces() -> Iterator[Interface]:
    """Ask the kernel for this host's network interfaces; loopback leads nowhere.

    Yields:
        Those that have an IPv4 address.

    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            address = _asked(probe, name, SIOCGIFADDR)
            if address and not address.startswith("127."):
                folder = NETWORK / name
                mask = int.from_bytes(socket.inet_aton(_asked(probe, name, SIOCGIFNETMASK)))
                speeds = link_speeds(folder)
                yield Interface(
                    name=name,
                    address=address,
                    prefix=mask.bit_count(),
                    mtu=int(read_text(folder / "mtu") or 0),
                    speed=sum(speeds) or None,
                    flow=max(speeds) if len(speeds) > 1 else None,
                    slot=_slot(folder / "device"),
                )


def link_speeds(folder: Path) -> list[float]:
    """Find how fast an interface is: from its own hardware, or that of the interfaces below it.

    Drivers without hardware report an invented speed: 10 Gbit/s for a veth.

    Args:
        folder: of the interface in /sys/class/net.

    Returns:
        Bytes per second in each direction of each piece of hardware: several for a bond; nothing
        if one of them is not known.

    """
    if (folder / "device").exists():
        megabits = read_text(folder / "speed")
        return [int(megabits) * 1e6 / 8] if megabits.isdigit() and int(megabits) else []
    bond = folder / "bonding"
    active = read_text(bond / "active_slave")
    members = [active] if active else read_text(bond / "slaves").split()
    if not bond.exists():  # a VLAN has one lower interface; the ports of a bridge are no limit
        lower = [path.name.removeprefix("lower_") for path in folder.glob("lower_*")]
        members = [] if (folder / "bridge").exists() else lower[:1]
    found = [link_speeds(folder.parent / member) for member in members]
    return [speed for speeds in found for speed in speeds] if all(found) else []


def _slot(device: Path) -> str:
    """Give the speed and width that a PCIe device uses now."""
    speed, width = (
        read_text(device / "current_link_speed"),
        read_text(device / "current_link_width"),
    )
    return f"{speed} x{width}" if speed and width.isdigit() and int(width) else ""


def _asked(probe: socket.socket, name: str, request: int) -> str:
    """Give an address of an interface; nothing if it has none."""
    try:
        answer = fcntl.ioctl(probe, request, struct.pack("256s", name.encode()))
    except OSError:
        return ""
    return socket.inet_ntoa(answer[20:24])
