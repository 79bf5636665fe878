"""Bounds of values that other tools measured, on hardware that the user or the log names.

A bound follows from the vendor's figures: which part of the hardware the bytes of a metric pass, in
which direction, and how many bytes must pass it. If the hardware, the number of hosts or the
collective is not known, there is no bound; nothing is guessed.
"""

from collections.abc import Callable
from typing import Literal

from msgspec.structs import replace

from cluster.analysis.limits.hardware import is_amd
from cluster.analysis.limits.link import BELIEVABLE, factor
from cluster.analysis.limits.network import (
    FACTORS,
    PAIR,
    SUMMED,
    Params,
    between_hosts,
    count,
    in_ways,
    messages,
    network_share,
    scale,
    slots,
    tcp,
    verbs,
)
from cluster.core.model.results.limits import Assumption, Figure, Hardware, Limit, LimitKind
from cluster.core.model.results.measurements import Definition, Medium, Summary

BETWEEN_HOSTS = ("network", "RDMA")  # media of messages
OR = " or "  # between the operations that a log's figures fit
MOST_RAISED = 2  # times the rate of a memory: no memory runs at twice its clock
Missing = Literal[
    "hardware", "hosts", "network", "operation", "gpu",
    "network_within_host", "network_beside_nvlink",
]  # fmt: skip
"""What is not known where there is no limit; of the last two, nothing can be stated."""
MOST_CACHED = 128 << 20  # bytes of a copy: both ends of it fit in 256 MiB, the largest such cache


def with_hardware_bound(
    summary: Summary, definition: Definition, hardware: Hardware | None
) -> Summary:
    """Add the bound on some hardware, and the share that the median reaches, unless it has one."""
    limit = bound(definition, summary.params, hardware)
    if limit is None or summary.bound is not None or summary.median <= 0:
        return summary
    size = count(summary.params, "size")
    if summary.unit != "B/s" and not (summary.unit == "s" and size):
        return summary
    rate = summary.median if summary.unit == "B/s" else size / summary.median
    while limit.otherwise is not None and rate > BELIEVABLE * limit.otherwise.rate:
        limit = limit.otherwise  # the value is impossible even without the assumption
    return replace(
        summary,
        bound=limit.rate if summary.unit == "B/s" else size / limit.rate,
        share=rate / limit.rate,
        limit=replace(limit, otherwise=None),
    )


def bound(definition: Definition, params: Params, hardware: Hardware | None) -> Limit | None:
    """Return the highest rate that hardware allows a metric at a point; None if unknown."""
    if hardware is None or not definition.medium:
        return None
    return _BY_MEDIUM[definition.medium](definition, params, hardware)


def missing(definition: Definition, params: Params, hardware: Hardware | None) -> Missing | None:
    """Return what must be known to compute a limit; none if nothing would help."""
    if not definition.medium:
        return None
    hosts, ranks, medium = count(params, "hosts"), count(params, "ranks"), definition.medium
    if medium in (*BETWEEN_HOSTS, "TCP") and hosts == 1:
        return "network_within_host"
    if hardware is None:
        return "hardware"
    reasons: tuple[tuple[object, Missing], ...] = (
        (medium in (*BETWEEN_HOSTS, "collective") and not hosts, "hosts"),
        (hardware.fabric and medium == "collective" and hosts > 1, "network_beside_nvlink"),
        (hardware.nic is None and (hosts > 1 or medium == "TCP"), "network"),
        (
            medium == "collective"
            and hosts not in (1, ranks)
            and str(params.get("operation", "")) not in FACTORS,
            "operation",
        ),
        (medium in ("host to GPU", "GPU to GPU") and hardware.bus is None, "gpu"),
        (medium == "GPU memory" and hardware.memory is None, "gpu"),
        (medium == "collective" and hosts == 1 and not (hardware.nvlink or hardware.bus), "gpu"),
    )
    return next((name for applies, name in reasons if applies), None)


def _collective(definition: Definition, params: Params, hardware: Hardware) -> Limit | None:
    """Bound bus bandwidth by the links of a GPU within a host, and by the network between hosts.

    If NVLink joins hosts, the network carries only a part of the data, and it is not known which.
    """
    several = str(params.get("operation", "")).split(OR)
    if len(several) > 1:  # of a class: the limit that all of them have
        bounds = [_collective(definition, {**params, "operation": o}, hardware) for o in several]
        limits = {limit and (limit.kind, limit.rate) for limit in bounds}
        return bounds[0] if len(limits) == 1 else None
    hosts, ranks, operation = count(params, "hosts"), count(params, "ranks"), several[0]
    if hosts == 1:
        return _inside(operation, ranks, hosts, hardware)
    if hardware.fabric:
        return None
    outside = between_hosts(operation, ranks, hosts, hardware) if hosts else None
    if outside is None or ranks <= hosts:
        return outside
    inside = _inside(operation, ranks, hosts, hardware) or outside
    return min(outside, inside, key=lambda bound: bound.rate)


def _inside(operation: str, ranks: int, hosts: int, hardware: Hardware) -> Limit | None:
    """Bound bus bandwidth by the links of a GPU, through which a ring within a host sends it.

    The share of the data that stays within a host of g GPUs is the factor of g participants; the
    rest passes the network. A switch that adds up data needs each byte of S once, and returns its
    part to each GPU: S (g+1)/g in each direction, where a ring needs 2 S (g-1)/g. Bus bandwidth is
    always computed as for a ring.
    """
    local, word = ranks // max(1, hosts), FACTORS.get(operation, "")
    link = hardware.nvlink or hardware.bus
    if hardware.pair and (local <= PAIR or operation == "sendrecv"):
        link = hardware.pair
    if link is None:
        return None
    sums = bool(hardware.reduces and hardware.nvlink and local > PAIR) and word in ("", SUMMED)
    gain = 1.0
    if sums:
        gain = factor(SUMMED, ranks) * local / (local + 1)
    elif hosts > 1:
        # the share of the size that must pass between the GPUs of one of several hosts
        share = factor("(n-1)/n" if word in ("", "1") else word, local)
        stays = (local - 1) / ranks if operation == "alltoall" else share
        gain = factor(word, ranks) / stays
    kind: LimitKind = "pcie_ring"
    if hardware.nvlink:
        kind = "infinity_fabric_ring" if is_amd(hardware) else "nvls" if sums else "nvlink_ring"
    ring = Limit(kind=kind, rate=link.rate, source=link.source)
    limit = scale(_unless_bridged(ring, hardware), gain, flow="one way", times=gain)
    return limit if hosts > 1 else _between_bridges(limit, operation, local, hardware)


def _between_bridges(ring: Limit, operation: str, ranks: int, hardware: Hardware) -> Limit:
    """Bound more boards than a bridge joins by PCIe: between those, there is no NVLink.

    The boards of a bridge share what has to leave them, as the ranks of a host share its network.
    """
    size = hardware.joins
    if hardware.nvlink is None or hardware.bridge is None or hardware.bus is None:
        return ring
    if ranks <= size or operation not in FACTORS:
        return ring
    groups = -(-ranks // size)
    share = network_share(operation, ranks, groups)
    bus = scale(
        slots(hardware.bus, size), share, flow="one way", times=share, boards=(groups, size)
    )
    return min(ring, bus, key=lambda limit: limit.rate)


def _unless_bridged(limit: Limit, hardware: Hardware) -> Limit:
    """Add to a bound by PCIe that it does not hold if NVLink bridges join the boards."""
    bridge = hardware.bridge
    if hardware.nvlink or bridge is None or limit.rate >= bridge.rate:
        return limit
    otherwise = Limit(kind="nvlink_bridge", rate=bridge.rate, source=bridge.source)
    return replace(limit, assumption=Assumption(kind="no_bridge"), otherwise=otherwise)


def _peers(definition: Definition, params: Params, hardware: Hardware) -> Limit | None:
    """Bound copies between two GPUs of a host by all links of a GPU, or by PCIe without P2P."""
    direct = params.get("p2p") != "off"
    if direct and hardware.nvlink:
        links = hardware.pair or hardware.nvlink
        kind: LimitKind = "nvlink_pair" if hardware.pair else "nvlink"
        kind = "infinity_fabric" if is_amd(hardware) else kind
        return in_ways(definition, Limit(kind=kind, rate=links.rate, source=links.source))
    if hardware.bus is None:
        return None
    slot = Limit(kind="pcie", rate=hardware.bus.rate, source=hardware.bus.source)
    return in_ways(definition, _unless_bridged(slot, hardware) if direct else slot)


def _host_to_gpu(definition: Definition, params: Params, hardware: Hardware) -> Limit | None:
    if hardware.bus is None:
        return None
    return in_ways(definition, _of_all_devices("host_bus", hardware.bus, params))


def _gpu_memory(definition: Definition, params: Params, hardware: Hardware) -> Limit | None:
    if hardware.memory is None:
        return None
    limit = _of_all_devices("gpu_memory", hardware.memory, params)
    if definition.flow == "one way":
        limit = replace(limit, kind="gpu_memory_copy", rate=limit.rate / 2)
    if 0 < count(params, "size") <= MOST_CACHED:
        return replace(limit, assumption=Assumption(kind="not_cached"))
    if hardware.raised and not hardware.memory.is_stated:
        most = scale(limit, MOST_RAISED, times=float(MOST_RAISED))
        assumption = Assumption(kind="memory_not_overclocked")
        return replace(limit, assumption=assumption, otherwise=most)
    return limit


def _of_all_devices(kind: LimitKind, figure: Figure, params: Params) -> Limit:
    devices = max(1, count(params, "devices"))
    return Limit(
        kind=kind, rate=figure.rate * devices, count=devices, source=figure.source, part=figure.part
    )


_BY_MEDIUM: dict[Medium, Callable[[Definition, Params, Hardware], Limit | None]] = {
    "TCP": tcp,
    "network": messages,
    "RDMA": verbs,
    "collective": _collective,
    "GPU to GPU": _peers,
    "host to GPU": _host_to_gpu,
    "GPU memory": _gpu_memory,
}
