"""The network interfaces of this host."""

import ctypes
import fcntl
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

from cluster.agent.hardware import read_text
from cluster.core.model.hosts import Interface

SIOCGIFCONF, SIOCGIFNETMASK, SIOCGIFMTU = 0x8912, 0x891B, 0x8921  # linux/sockios.h
IFREQ = 40 if struct.calcsize("P") == 8 else 32  # bytes of a struct ifreq (linux/if.h)  # noqa: PLR2004
MOST = 1024  # addresses
NETWORK = Path("/sys/class/net")


def list_interfaces() -> Iterator[Interface]:
    """Yield an interface for each IPv4 address, except loopback: a host may have several."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        buffer = ctypes.create_string_buffer(MOST * IFREQ)
        request = struct.pack("iP", len(buffer), ctypes.addressof(buffer))
        size, _ = struct.unpack("iP", fcntl.ioctl(probe, SIOCGIFCONF, request))
        for start in range(0, size, IFREQ):
            own_label, _, number = struct.unpack_from("16s4s4s", buffer, start)
            label, address = own_label.partition(b"\0")[0].decode(), socket.inet_ntoa(number)
            if not address.startswith("127."):
                name = label.partition(":")[0]  # an alias such as eth0:1 belongs to eth0
                folder = NETWORK / name
                # of hardware; not known where no cable is plugged in
                duplex = read_text(folder / "duplex") if (folder / "device").exists() else ""
                mask = int.from_bytes(_ask(probe, SIOCGIFNETMASK, label, address)[20:24])
                speeds = link_speeds(folder)
                yield Interface(
                    name=name,
                    address=address,
                    prefix=mask.bit_count(),
                    # Not from /sys, which may show another network namespace.
                    mtu=struct.unpack_from("16xi", _ask(probe, SIOCGIFMTU, name, address))[0],
                    speed=sum(speeds) or None,
                    flow=max(speeds) if len(speeds) > 1 else None,
                    slot=_slot(folder / "device"),
                    duplex=duplex if duplex in ("full", "half") else "",
                )


def link_speeds(folder: Path) -> list[float]:
    """Return the bytes per second of an interface's hardware, each way: several for a bond.

    Drivers without hardware report an invented speed: 10 Gbit/s for a veth. Empty if one speed is
    not known.
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
    by_member = [link_speeds(folder.parent / member) for member in members]
    return [speed for speeds in by_member for speed in speeds] if all(by_member) else []


def _slot(device: Path) -> str:
    """Return the speed and width that a PCIe device uses now."""
    speed, width = (
        read_text(device / "current_link_speed"),
        read_text(device / "current_link_width"),
    )
    return f"{speed} x{width}" if speed and width.isdigit() and int(width) else ""


def _ask(probe: socket.socket, command: int, label: str, address: str) -> bytes:
    """Return the struct ifreq of one of the addresses of an interface."""
    family = struct.pack("=H2x", socket.AF_INET)
    request = struct.pack("16s4s4s", label.encode(), family, socket.inet_aton(address))
    return fcntl.ioctl(probe, command, request.ljust(IFREQ, b"\0"))
