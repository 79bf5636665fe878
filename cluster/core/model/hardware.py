"""What named hardware can do: rates, each with its source."""

from cluster.core.model.value import Value

SAID = "as --hardware said"  # the source of rates that the user gave


class Figure(Value, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """What something can carry at most."""

    rate: float  # bytes per second, in one direction
    source: str  # the document or measurement that gives it
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
