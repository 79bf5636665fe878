"""What limits a rate: a part of the hardware, and what was assumed of it; what PCIe carries."""

import re
from typing import Literal

from cluster.core.model.value import Value

LimitKind = Literal[
    "given",  # by the user, as a rate
    "tcp",
    "udp",
    "rdma",  # all interfaces of a host together
    "efa",  # the same, of EC2
    "interfaces",  # some of a host
    "pcie",  # the slot of a GPU
    "host_bus",  # between a host and its GPUs
    "nvlink",
    "nvlink_pair",  # the links to one other GPU
    "nvlink_ring",
    "nvlink_bridge",
    "nvls",
    "infinity_fabric",
    "infinity_fabric_ring",
    "pcie_ring",
    "gpu_pair",  # what joins the two GPUs of a run
    "gpu_memory",
    "gpu_memory_copy",
    "memory_copy",
]
IN_MEMORY: tuple[LimitKind, ...] = ("memory_copy", "gpu_memory", "gpu_memory_copy")
SAID = "as --hardware said"  # the source of rates that the user gave


class Assumption(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What a limit takes for granted, without the log or the user having stated it."""

    kind: Literal[
        "mtu", "messages_by_tcp", "several_hosts", "receiver_wrote_log", "connection_held",
        "half_of_hosts_send", "pairs_send_from_hosts", "no_sharp", "nearest_interfaces",
        "no_bridge", "not_cached", "memory_not_overclocked",
    ]  # fmt: skip
    mtu: int = 0
    rate: float = 0.0  # of a connection that is held to it, with its `source`
    source: str = ""
    hosts: int = 0
    senders: int = 0  # hosts that send, of `hosts`
    pairs: int = 0
    nics: int = 0  # interfaces that a rank sends through


class Limit(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The highest rate that the hardware allows a metric."""

    kind: LimitKind
    rate: float  # bytes per second
    # which directions the bytes take, as the definition of the metric says
    flow: Literal["", "one way", "both ways", "between hosts", "between ranks"] = ""
    source: str = ""  # who states the figure of the hardware
    part: str = ""  # what the figure is of, where `kind` does not say it, such as a slot
    # without which it would be another limit; none if all of it was stated
    assumption: Assumption | None = None
    otherwise: "Limit | None" = None  # the limit without that assumption; none if it is not known
    times: float = 1.0  # the factor between the figure of the hardware and the rate
    count: int = 1  # how many of it work together: slots, devices, interfaces, connections
    connections: bool = False  # `count` is of TCP connections, each with the rate of `source`
    of: int = 0  # how many interfaces a host has, of which `count` work
    hosts: int = 0  # of a collective between hosts
    boards: tuple[int, int] | None = None  # of a collective, in groups that bridges join
    senders: int = 0  # hosts that send at once; `half_of_hosts` if the log does not say how many
    half_of_hosts: bool = False
    host: bool = False  # it is that of all processes of a host together
    mtu: int = 0
    # what the interface carries, with all headers; 0 if it was derived from `source`
    line: float = 0.0
    per_connection: float = 0.0  # the limit of one connection on that line; 0 if it has none


class Figure(Value, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """What something can carry at most."""

    rate: float  # bytes per second, in one direction
    source: str  # the document or measurement that gives it
    part: str = ""  # what it is of, such as `8.0 GT/s PCIe x16`; empty if the source says no more
    is_stated: bool = False  # by the user, without a source
    # the name in the corpus of the share that healthy hardware reaches, where that is unlike other
    # GPUs
    threshold: str = ""


class Hardware(Value, frozen=True, kw_only=True):
    """The hardware of the measured hosts, all alike, as the user or a list describes it."""

    name: str  # such as `p4d.24xlarge`, `A100` or what the user called it
    gpu: str = ""  # the model of its GPUs; empty if that is not known
    gpus: int = 0  # how many of them a host has; 0 if that is not known
    nvlink: Figure | None = None  # of one GPU, all its links together
    # between two of its GPUs, the NVLinks that join them, if those are fewer than all; none if a
    # switch joins them, or if that is not known
    pair: Figure | None = None
    bus: Figure | None = None  # between a GPU and its host: PCIe, or its replacement
    memory: Figure | None = None  # of a GPU, what it reads and writes counted together
    # between two of its GPUs, all NVLinks of the bridges that they may have; none if a board has no
    # connector for them
    bridge: Figure | None = None
    joins: int = 2  # how many boards such a bridge joins
    # a switch joins the GPUs: each can use all its links to reach any other one
    switched: bool = False
    reduces: bool = False  # that switch can add up data (NVLink SHARP)
    raised: bool = False  # its owner may raise the clock of its memory, as of boards for games
    fabric: bool = False  # NVLink also joins hosts, or may do so; GPUs then do not need the network
    nic: Figure | None = None  # all network interfaces of a host together
    nics: int = 1  # how many network interfaces a host has
    # they support RDMA, so messages do not need TCP; none if that is not known
    rdma: bool | None = None
    gpudirect: bool = True  # its network can read and write the GPUs' memory
    # what two ranks on two hosts were measured to exchange, both directions together; none if there
    # is no reference data
    both_ways: Figure | None = None
    mtu: int = 0  # bytes of a packet without its Ethernet frame, for TCP; 0 if that is not known
    flow: Figure | None = None  # one TCP connection, if it has a limit of its own


# A lane of PCIe, by the transfers per second of its generation: 8 of 10 bits are data in
# generations 1 and 2, 128 of 130 in 3 to 5; 6 and later send flits, of which 242 of 256 bytes are
# packets.
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
    return Figure(rate=lane.rate * int(match[2]), source=f"{slot}: {lane.source}", part=slot)
