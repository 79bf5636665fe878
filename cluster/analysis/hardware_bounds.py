"""Bounds of values that other tools measured, on hardware that the user or the log names.

A bound follows from the vendor's figures: which part of the hardware the bytes of a metric pass, in
which direction, and how many bytes must pass it. If the hardware, the number of hosts or the
collective is not known, there is no bound; nothing is guessed.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import msgspec

from cluster.analysis.link_bounds import BELIEVABLE, goodput
from cluster.analysis.rates import factor
from cluster.core.model.hardware import SAID
from cluster.core.model.hosts import HEADER_BYTES, Link
from cluster.core.model.value import Value
from cluster.core.units import format_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cluster.core.model.hardware import Figure, Hardware
    from cluster.core.model.measurements import Definition, Factor, Medium, Summary
    from cluster.core.model.value import Scalar

# Bus bandwidth over algorithm bandwidth: NVIDIA nccl-tests, doc/PERFORMANCE.md.
FACTORS: dict[str, Factor] = {
    "all_reduce": "2(n-1)/n",
    "all_gather": "(n-1)/n",
    "reduce_scatter": "(n-1)/n",
    "alltoall": "(n-1)/n",
    "gather": "(n-1)/n",
    "scatter": "(n-1)/n",
    "broadcast": "1",
    "reduce": "1",
    "sendrecv": "1",
}
SUMMED: Factor = "2(n-1)/n"
PAIR = 2  # ranks: none has to wait for a third
FABRIC = "NVLink joins its hosts, or may do so, so the network is not a limit"
UNBRIDGED = "no bridge of NVLink joins the boards (nvidia-smi topo -m says NV4 to NV18 if one does)"
RECEIVER = (
    "the receiver wrote the log: in an interval, a sender's kernel may take more than it sends"
)
UDP_SAVES = 24  # bytes: UDP's header has 8, TCP's with its time stamps 32


class Bound(Value, frozen=True, kw_only=True):
    """The highest rate that hardware allows a metric.

    Args:
        rate: bytes per second.
        limit: what sets it: the part, the direction and the source.
        assumes: what it assumes without the log or the user having stated it; empty if nothing.
        otherwise: the bound without that assumption; none if it is not known.

    """

    rate: float
    limit: str
    assumes: str = ""
    otherwise: Bound | None = None


def with_hardware_bound(
    summary: Summary, definition: Definition, hardware: Hardware | None
) -> Summary:
    """Add the bound on some hardware to a summary, and the share of it that the median reaches.

    Args:
        summary: of values.
        definition: of their metric.
        hardware: that they were measured on.

    Returns:
        The summary; unchanged if there is no bound, or if it already has one.

    """
    found = bound(definition, summary.params, hardware)
    if found is None or summary.bound is not None or summary.median <= 0:
        return summary
    size = _count(summary.params, "size")
    if summary.unit != "B/s" and not (summary.unit == "s" and size):
        return summary
    rate = summary.median if summary.unit == "B/s" else size / summary.median
    if found.otherwise is not None and rate > BELIEVABLE * found.otherwise.rate:
        found = found.otherwise  # the value is impossible even without the assumption
    return msgspec.structs.replace(
        summary,
        bound=found.rate if summary.unit == "B/s" else size / found.rate,
        share=rate / found.rate,
        limit=found.limit,
        assumes=found.assumes,
    )


def bound(
    definition: Definition, params: Mapping[str, Scalar], hardware: Hardware | None
) -> Bound | None:
    """Give the highest rate that hardware allows a metric.

    Args:
        definition: of the metric; its `medium` is what the bytes pass.
        params: the point, of which `hosts`, `ranks`, `operation` and `streams` are used.
        hardware: of the hosts, which are all alike.

    Returns:
        The bound; none if nothing bounds the metric, or if something is not known.

    """
    if hardware is None or not definition.medium:
        return None
    return _BY_MEDIUM[definition.medium](definition, params, hardware)


def missing(definition: Definition, params: Mapping[str, Scalar], hardware: Hardware | None) -> str:
    """Say what must be known to compute a bound.

    Args:
        definition: of the metric.
        params: the point.
        hardware: of the hosts, as far as it is known.

    Returns:
        The end of a sentence, such as `say --hosts`; empty if nothing would help.

    """
    if not definition.medium:
        return ""
    if hardware is None:
        return "say what it ran on: --hardware p4d.24xlarge, h100, nic=100gbit ..."
    hosts, ranks, medium = _count(params, "hosts"), _count(params, "ranks"), definition.medium
    words = shlex.quote(f"{hardware.name},nic=100gbit")
    nic = f"say what network it has, such as --hardware {words}"
    reasons = (
        (medium in ("network", "collective") and not hosts, "say on how many hosts: --hosts 2"),
        (medium == "network" and hosts == 1, "it stayed within one host"),
        (hardware.fabric and medium == "collective" and hosts > 1, FABRIC),
        (hardware.nic is None and (hosts > 1 or medium == "TCP"), nic),
        (
            medium == "collective" and hosts not in (1, ranks) and not params.get("operation"),
            "the log does not say which collective it was",
        ),
        (medium in ("host to GPU", "GPU to GPU") and hardware.bus is None, "use --hardware a100"),
    )
    return next((text for applies, text in reasons if applies), "")


def _tcp(definition: Definition, params: Mapping[str, Scalar], hardware: Hardware) -> Bound | None:
    """Bound TCP between two hosts; an interval may be of a sender, which the log does not say."""
    found = _connections(definition, params, hardware)
    if found is None or definition.metric != "interval":
        return found
    other = found.otherwise and msgspec.structs.replace(found.otherwise, assumes=RECEIVER)
    return msgspec.structs.replace(found, assumes=found.assumes or RECEIVER, otherwise=other)


def _connections(
    definition: Definition, params: Mapping[str, Scalar], hardware: Hardware
) -> Bound | None:
    """Bound TCP by the network, less frames and headers, and by the cap of a connection."""
    if hardware.nic is None or (definition.metric == "sent" and params.get("protocol") == "UDP"):
        return None
    streams = _count(params, "streams") if "streams" in params else 1  # or several, if not known
    rate, flow = hardware.nic.rate, hardware.flow
    udp = params.get("protocol") == "UDP"
    link = Link(
        rate=rate,
        mtu=hardware.mtu,
        flow=flow.rate if flow else None,
        source=hardware.nic.source,
    )
    saved = 1 + UDP_SAVES / (hardware.mtu - HEADER_BYTES) if udp else 1.0
    protocol = f"{'UDP' if udp else 'TCP'}, MTU {hardware.mtu}"
    whole = _ways(
        definition,
        goodput(msgspec.structs.replace(link, flow=None)) * saved,
        f"{protocol} ({hardware.nic.source})",
    )
    if flow is None or not streams or streams * flow.rate >= rate:
        return whole
    limit = f"{protocol} ({streams} connection(s): {flow.source})"
    capped = _ways(definition, goodput(link, streams) * saved, limit)
    if flow.source == SAID:
        return capped
    held = f"a connection is held to {format_rate(flow.rate)} ({flow.source})"
    return msgspec.structs.replace(capped, assumes=held, otherwise=whole)


def _network(
    definition: Definition, params: Mapping[str, Scalar], hardware: Hardware
) -> Bound | None:
    """Bound messages between hosts by all NICs of a host together; without RDMA, with TCP."""
    sender = definition.aggregation == "each rank" and params.get("rank") == 0
    if hardware.nic is None or _count(params, "hosts") < PAIR or sender:
        return None  # a sender's time ends when its buffer is free, and bytes are still in transit
    rate, limit = _line(hardware, hardware.nic)
    hosts, pairs = _count(params, "hosts"), _count(params, "pairs")
    if not pairs and definition.aggregation == "all ranks" and hosts > PAIR:
        return msgspec.structs.replace(
            _ways(definition, rate * (hosts // 2), f"half of the hosts, each {limit}"),
            assumes=f"half of the {hosts} hosts send (the number of pairs is not known)",
        )
    if pairs < PAIR:
        return _ways(definition, rate, limit)
    senders = min(pairs, hosts // 2)
    alone = 2 * pairs == hosts  # one rank on each host: each pair has two hosts
    return msgspec.structs.replace(
        _ways(definition, rate * senders, f"{senders} sending host(s), each {limit}"),
        assumes=""
        if alone
        else f"its {pairs} pairs send from {senders} of the {hosts} hosts to the others",
    )


def _line(hardware: Hardware, nic: Figure) -> tuple[float, str]:
    if hardware.rdma:
        return nic.rate, f"the network of a host ({nic.source})"
    link = Link(rate=nic.rate, mtu=hardware.mtu, source=nic.source)
    return goodput(link), f"the network of a host, TCP, MTU {hardware.mtu} ({nic.source})"


def _collective(
    definition: Definition, params: Mapping[str, Scalar], hardware: Hardware
) -> Bound | None:
    """Bound bus bandwidth by the links of a GPU within a host, and by the network between hosts.

    If NVLink joins hosts, the network carries only a part of the data, and it is not known which.
    """
    del definition
    hosts, ranks = _count(params, "hosts"), _count(params, "ranks")
    operation = str(params.get("operation", ""))
    if hosts == 1:
        return _inside(operation, ranks, hosts, hardware)
    if hardware.fabric:
        return None
    across = _across(operation, ranks, hosts, hardware) if hosts else None
    if across is None or ranks <= hosts:
        return across
    inside = _inside(operation, ranks, hosts, hardware) or across
    return min(across, inside, key=lambda bound: bound.rate)


def _inside(operation: str, ranks: int, hosts: int, hardware: Hardware) -> Bound | None:
    """Bound bus bandwidth by the links of a GPU, through which a ring within a host sends it.

    The share of the data that stays within a host of g GPUs is the factor of g participants; the
    rest passes the network. A switch that adds up data needs each byte of S once, and returns its
    part to each GPU: S (g+1)/g in each direction, where a ring needs 2 S (g-1)/g. Bus bandwidth is
    always computed as for a ring.
    """
    link = hardware.nvlink or hardware.bus
    if link is None:
        return None
    here, word = ranks // max(1, hosts), FACTORS.get(operation, "")
    sums = bool(hardware.reduces and hardware.nvlink and here > PAIR) and word in ("", SUMMED)
    gain = 1.0
    if sums:
        gain = factor(SUMMED, ranks) * here / (here + 1)
    elif hosts > 1:
        stays = (here - 1) / ranks if operation == "alltoall" else _shared(word, here)
        gain = factor(word, ranks) / stays
    what = f"{_links(link)} of a GPU" if hardware.nvlink else "PCIe of a GPU"
    how = "the switch sums (NVLS)" if sums else "a ring"
    found = Bound(
        rate=link.rate * gain, limit=f"one way: {_times(gain)}{what}, {how} ({link.source})"
    )
    return _unless_bridged(found, hardware, gain)


def _unless_bridged(found: Bound, hardware: Hardware, times: float = 1.0) -> Bound:
    """Add to a bound by PCIe that it does not hold if NVLink bridges join the boards."""
    if hardware.nvlink or hardware.bridge is None or found.rate >= hardware.bridge.rate * times:
        return found
    bridge = hardware.bridge
    return msgspec.structs.replace(
        found,
        assumes=UNBRIDGED,
        otherwise=Bound(
            rate=bridge.rate * times,
            limit=f"{_times(times)}NVLink bridges of a GPU ({bridge.source})",
        ),
    )


def _links(figure: Figure) -> str:
    return "Infinity Fabric" if "Infinity Fabric" in figure.source else "NVLink"


def _shared(word: Factor, here: int) -> float:
    """Give the share of the size that must pass between the GPUs of one of several hosts."""
    return factor("(n-1)/n" if word in ("", "1") else word, here)


def _times(gain: float) -> str:
    return "" if abs(gain - 1) < 1e-9 else f"{gain:.3g} x "  # noqa: PLR2004 - rounding


def _across(operation: str, ranks: int, hosts: int, hardware: Hardware) -> Bound | None:
    """Bound bus bandwidth by the network of a host.

    A host must send the data of its ranks for other hosts, in one direction: the factor of the
    number of hosts for collectives whose ranks share data, and this times its ranks for an alltoall
    (E. Chan et al., "Collective communication: theory, practice, and experience", CCPE 19, 2007).
    In a sendrecv, each rank sends to the next, so only one rank of a host sends to another host.
    The PCIe slots of a few GPUs may not be enough to fill the network.
    """
    if hardware.nic is None or not ranks or (operation not in FACTORS and ranks != hosts):
        return None
    rate, limit = _line(hardware, hardware.nic)
    if operation == "sendrecv":
        return _to_next_host(ranks // hosts, hardware, Bound(rate=rate, limit=limit))
    senders = max(1, ranks // hosts)
    if hardware.bus and senders * hardware.bus.rate < rate:
        rate, limit = (
            senders * hardware.bus.rate,
            f"{senders} x PCIe of a GPU ({hardware.bus.source})",
        )
    share = network_share(operation, ranks, hosts)
    return Bound(rate=rate * share, limit=f"one way, {hosts} hosts: {_times(share)}{limit}")


def _to_next_host(ranks: int, hardware: Hardware, whole: Bound) -> Bound:
    """Bound what one rank can send to another host by the NICs next to its GPU."""
    if hardware.bus and hardware.bus.rate < whole.rate:
        whole = Bound(
            rate=hardware.bus.rate, limit=f"one way: PCIe of a GPU ({hardware.bus.source})"
        )
    else:
        whole = Bound(rate=whole.rate, limit=f"one way: {whole.limit}")
    own = max(1, hardware.nics // max(hardware.gpus, ranks))
    if hardware.nic is None or own >= hardware.nics:
        return whole
    rate = hardware.nic.rate * own / hardware.nics
    if rate >= whole.rate:
        return whole
    return Bound(
        rate=rate,
        limit=f"one way: {own} of the {hardware.nics} interfaces of a host ({hardware.nic.source})",
        assumes=f"a rank sends through {own} network interface(s), those next to its GPU",
        otherwise=whole,
    )


def network_share(operation: str, ranks: int, hosts: int) -> float:
    """Give bus bandwidth over the rate at which a host must send.

    Args:
        operation: such as `all_reduce`; with one rank on each host, the factors cancel out.
        ranks: how many take part.
        hosts: how many they are on, with the same number on each.

    Returns:
        The ratio; 1 for a ring, which sends more than necessary if a host has several ranks.

    """
    word = FACTORS.get(operation, "1")
    each = ranks / hosts if operation == "alltoall" else 1.0
    return factor(word, ranks) / (factor(word, hosts) * each)


def _peers(
    definition: Definition, params: Mapping[str, Scalar], hardware: Hardware
) -> Bound | None:
    """Bound copies between two GPUs of a host by all links of a GPU, or by PCIe without P2P."""
    direct = params.get("p2p") != "off"
    if direct and hardware.nvlink:
        links = hardware.nvlink
        return _ways(
            definition, links.rate, f"{_links(links)} of a GPU, all links ({links.source})"
        )
    if hardware.bus is None:
        return None
    found = _ways(definition, hardware.bus.rate, f"PCIe of a GPU ({hardware.bus.source})")
    if not direct:
        return found
    return _unless_bridged(found, hardware, 2 if definition.flow == "both ways" else 1)


def _host_to_gpu(
    definition: Definition, params: Mapping[str, Scalar], hardware: Hardware
) -> Bound | None:
    if hardware.bus is None:
        return None
    return _ways(definition, *_of_all_devices(hardware.bus, params))


def _gpu_memory(
    definition: Definition, params: Mapping[str, Scalar], hardware: Hardware
) -> Bound | None:
    if hardware.memory is None:
        return None
    rate, source = _of_all_devices(hardware.memory, params)
    if definition.flow == "one way":
        return Bound(rate=rate / 2, limit=f"half of the GPU's memory, read and written: {source}")
    return Bound(rate=rate, limit=f"memory of the GPU, read and write together: {source}")


def _of_all_devices(one: Figure, params: Mapping[str, Scalar]) -> tuple[float, str]:
    """Give the rate of all devices of a test together, and its source."""
    devices = max(1, _count(params, "devices"))
    many = f"{devices} x " if devices > 1 else ""
    return one.rate * devices, f"{many}{one.source}"


def _ways(definition: Definition, rate: float, limit: str) -> Bound:
    both = definition.flow == "both ways"
    return Bound(rate=rate * (2 if both else 1), limit=f"{definition.flow}: {limit}")


def _count(params: Mapping[str, Scalar], name: str) -> int:
    value = params.get(name, 0)
    return value if isinstance(value, int) else 0


_BY_MEDIUM: dict[Medium, Callable[[Definition, Mapping[str, Scalar], Hardware], Bound | None]] = {
    "TCP": _tcp,
    "network": _network,
    "collective": _collective,
    "GPU to GPU": _peers,
    "host to GPU": _host_to_gpu,
    "GPU memory": _gpu_memory,
}
