"""What limits a rate: a part of the hardware, and what was assumed of it; no words."""

from __future__ import annotations

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
    # without which it would be another limit; none if all of it was stated
    assumption: Assumption | None = None
    otherwise: Limit | None = None  # the limit without that assumption; none if it is not known
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
