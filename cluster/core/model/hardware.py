"""What named hardware can do: rates, each with its source."""

from __future__ import annotations

from cluster.core.model.value import Value

SAID = "as --hardware said"  # the source of rates that the user gave


class Figure(Value, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """What something can carry at most.

    Args:
        rate: bytes per second, in one direction.
        source: the document or measurement that gives it.
        threshold: the name in the corpus of the share that healthy hardware reaches, where that is
            unlike other GPUs.
    """

    rate: float
    source: str
    threshold: str = ""


class Hardware(Value, frozen=True, kw_only=True):
    """The hardware of the measured hosts, all alike, as the user or a list describes it.

    Args:
        name: such as `p4d.24xlarge`, `A100` or what the user called it.
        gpu: the model of its GPUs; empty if that is not known.
        gpus: how many of them a host has; 0 if that is not known.
        nvlink: of one GPU, all its links together.
        pair: between two of its GPUs, the NVLinks that join them, if those are fewer than all; none
            if a switch joins them, or if that is not known.
        bus: between a GPU and its host: PCIe, or its replacement.
        memory: of a GPU, what it reads and writes counted together.
        bridge: between two of its GPUs, all NVLinks of the bridges that they may have; none if a
            board has no connector for them.
        joins: how many boards such a bridge joins.
        switched: a switch joins the GPUs: each can use all its links to reach any other one.
        reduces: that switch can add up data (NVLink SHARP).
        raised: its owner may raise the clock of its memory, as of boards for games.
        fabric: NVLink also joins hosts, or may do so; GPUs then do not need the network.
        nic: all network interfaces of a host together.
        nics: how many network interfaces a host has.
        rdma: they support RDMA, so messages do not need TCP; none if that is not known.
        gpudirect: its network can read and write the GPUs' memory.
        both_ways: what two ranks on two hosts were measured to exchange, both directions together;
            none if there is no reference data.
        mtu: bytes of a packet without its Ethernet frame, for TCP; 0 if that is not known.
        flow: one TCP connection, if it has a limit of its own.
    """

    name: str
    gpu: str = ""
    gpus: int = 0
    nvlink: Figure | None = None
    pair: Figure | None = None
    bus: Figure | None = None
    memory: Figure | None = None
    bridge: Figure | None = None
    joins: int = 2
    switched: bool = False
    reduces: bool = False
    raised: bool = False
    fabric: bool = False
    nic: Figure | None = None
    nics: int = 1
    rdma: bool | None = None
    gpudirect: bool = True
    both_ways: Figure | None = None
    mtu: int = 0
    flow: Figure | None = None
