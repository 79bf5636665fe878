"""The share of its limit that healthy hardware reaches, of `published/thresholds.toml`."""

import math

from msgspec.structs import replace

from cluster.analysis.limits import published
from cluster.analysis.limits.network import PAIR, Params, network_share
from cluster.core.model.results.limits import Figure, Hardware
from cluster.core.model.results.measurements import Definition, Medium
from cluster.core.model.value import Value

RINGS = ("", "all_reduce", "all_gather", "reduce_scatter")  # the shares of collectives are of these
# Bytes of a message from which it saturates its link, so that its share of the bound counts.
LARGE = {
    "network": 1 << 20,
    "RDMA": 1 << 16,  # perftest keeps 128 messages in flight
    "collective": 1 << 26,
    "host to GPU": 1 << 23,
    "GPU memory": 1 << 23,
}
REPEATED = 0.9  # of a figure that was published once: above this, it is the same figure


class Usual(Value, frozen=True, kw_only=True):
    """The share of a bound that healthy hardware reaches with large messages."""

    share: float  # the lowest share of healthy hardware
    thresholds: tuple[str, ...] = ()  # the classes that it follows from, in `thresholds.toml`
    source: str = ""  # who measured it, if it is of no class
    used: int = 0  # how many of the `interfaces` of a host carry messages, if not all
    interfaces: int = 0


def threshold(name: str) -> Usual:
    """Return the threshold of a class, by its name in `thresholds.toml`."""
    return Usual(share=published.thresholds()[name].share, thresholds=(name,))


def usual(definition: Definition, params: Params, hardware: Hardware) -> Usual | None:
    """Return the share of a bound that healthy hardware reaches; None if we know of none."""
    medium, size = definition.medium, params.get("size", math.inf)
    is_small = not isinstance(size, str) and size < LARGE.get(medium, 0)
    # UDP is sent at the requested rate; iperf3 sends 1 Mbit/s by default.
    if is_small or params.get("protocol") == "UDP":
        return None
    if medium == "collective":
        return _usual_collective(params, hardware)
    if medium in ("network", "RDMA"):
        return _usual_messages(definition, params, hardware)
    if medium == "host to GPU":
        return None if definition.flow == "both ways" else _usual_bus(params, hardware.bus)
    return _usual_of_one(medium, params, hardware)


def _usual_of_one(medium: Medium, params: Params, hardware: Hardware) -> Usual | None:
    """Return the share for one connection, or for the links and the memory of one GPU."""
    if medium == "GPU to GPU":
        return threshold("links") if hardware.switched and params.get("p2p") != "off" else None
    if medium == "GPU memory":
        return threshold("gpu_memory") if params.get("devices", 1) == 1 else None
    return threshold("tcp") if medium == "TCP" else None


def _usual_messages(definition: Definition, params: Params, hardware: Hardware) -> Usual | None:
    """Return the share for messages; a pair of ranks may use one of the NICs of a host."""
    duplex, pairs = hardware.both_ways, params.get("pairs", 1)
    if definition.flow == "both ways" and duplex is not None and hardware.nic is not None:
        return Usual(share=REPEATED * duplex.rate / (2 * hardware.nic.rate), source=duplex.source)
    usual_share = threshold("rdma" if hardware.rdma or definition.medium == "RDMA" else "mpi_tcp")
    used = max(1, pairs) if isinstance(pairs, int) else 1
    if used >= hardware.nics:
        return usual_share
    share = usual_share.share * used / hardware.nics
    return replace(usual_share, share=share, used=used, interfaces=hardware.nics)


def _usual_bus(params: Params, bus: Figure | None) -> Usual | None:
    """Return the share for a single GPU, in one direction, with pinned memory."""
    test = str(params.get("test", ""))
    alone = params.get("devices", 1) == 1 and "all" not in test and "bidirectional" not in test
    if bus is None or not alone or params.get("memory") == "pageable":
        return None
    return threshold(bus.threshold or "pcie")


def _usual_collective(params: Params, hardware: Hardware) -> Usual | None:
    hosts, ranks = params.get("hosts", 0), params.get("ranks", 0)
    if hosts != 1:
        return _usual_across(params, hardware) if hardware.rdma else None
    if hardware.nvlink is None or not hardware.switched:
        return None
    if params.get("operation", "") not in RINGS:
        return None  # in an alltoall, each pair of GPUs has data of its own
    sums = hardware.reduces and params.get("operation", "") in ("", "all_reduce")
    return threshold("sums" if sums and isinstance(ranks, int) and ranks > PAIR else "ring")


def _usual_across(params: Params, hardware: Hardware) -> Usual | None:
    """Return the share between hosts; NCCL may choose a ring, which sends more than necessary.

    Some GPUs of a host reach only some of its NICs, and we know of no measurement for that case.
    """
    hosts, ranks = params.get("hosts", 0), params.get("ranks", 0)
    if params.get("operation", "") not in RINGS:
        return None
    if not isinstance(hosts, int) or not isinstance(ranks, int) or not 1 < hosts <= ranks:
        return threshold("across")
    if hardware.nics > 1 and ranks // hosts < (hardware.gpus or hardware.nics):
        return None
    whole, ring = threshold("across"), threshold("ring_across")
    share = ring.share / network_share(str(params.get("operation", "")), ranks, hosts)
    if share >= whole.share:
        return whole
    return Usual(share=share, thresholds=("ring_across", "trees"))
