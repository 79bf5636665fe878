"""Bounds of values that other tools measured, on hardware that the user or the log names.

A bound follows from the vendor's figures: which part of the hardware the bytes of a metric pass, in
which direction, and how many bytes must pass it. If the hardware, the number of hosts or the
collective is not known, there is no bound; nothing is guessed.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import msgspec

from cluster.analysis.limits.link import BELIEVABLE
from cluster.analysis.limits.network import (
    FACTORS,
    PAIR,
    SUMMED,
    Bound,
    across,
    count,
    in_ways,
    messages,
    network_share,
    scaled,
    tcp,
    times,
    verbs,
)
from cluster.analysis.limits.rates import factor
from cluster.core.model.hardware import SAID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cluster.core.model.hardware import Figure, Hardware
    from cluster.core.model.measurements import Definition, Factor, Medium, Summary
    from cluster.core.model.value import Scalar

BETWEEN_HOSTS = ("network", "RDMA")  # media of messages
FABRIC = "NVLink joins its hosts, or may do so, so the network is not a limit"
UNBRIDGED = "no bridge of NVLink joins the boards (nvidia-smi topo -m says NV4 to NV18 if one does)"
NOT_CACHED = "the copy does not stay in the GPU's last cache"
MOST_RAISED = 2  # times the rate of a memory: no memory runs at twice its clock
NOT_RAISED = "nobody raised the clock of the GPU's memory"
MOST_CACHED = 128 << 20  # bytes of a copy: both ends of it fit in 256 MiB, the largest such cache


def with_hardware_bound(
    summary: Summary, definition: Definition, hardware: Hardware | None
) -> Summary:
    """Add the bound on some hardware to a summary, and the share of it that the median reaches.

    Returns:
        The summary; unchanged if there is no bound, or if it already has one.

    """
    found = bound(definition, summary.params, hardware)
    if found is None or summary.bound is not None or summary.median <= 0:
        return summary
    size = count(summary.params, "size")
    if summary.unit != "B/s" and not (summary.unit == "s" and size):
        return summary
    rate = summary.median if summary.unit == "B/s" else size / summary.median
    while found.otherwise is not None and rate > BELIEVABLE * found.otherwise.rate:
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
    """Return the highest rate that hardware allows a metric.

    Args:
        definition: of the metric; its `medium` is what the bytes pass.
        params: the point, of which `hosts`, `ranks`, `operation` and `streams` are used.

    Returns:
        The bound; none if nothing bounds the metric, or if something is not known.

    """
    if hardware is None or not definition.medium:
        return None
    return _BY_MEDIUM[definition.medium](definition, params, hardware)


def missing(definition: Definition, params: Mapping[str, Scalar], hardware: Hardware | None) -> str:
    """Say what must be known to compute a bound.

    Returns:
        The end of a sentence, such as `say --hosts`; empty if nothing would help.

    """
    if not definition.medium:
        return ""
    hosts, ranks, medium = count(params, "hosts"), count(params, "ranks"), definition.medium
    if medium in (*BETWEEN_HOSTS, "TCP") and hosts == 1:
        return "it stayed within one host"
    if hardware is None:
        return "say what it ran on: --hardware p4d.24xlarge, h100, nic=100gbit ..."
    words = shlex.quote(f"{hardware.name},nic=100gbit")
    nic = f"say what network it has, such as --hardware {words}"
    reasons = (
        (
            medium in (*BETWEEN_HOSTS, "collective") and not hosts,
            "say on how many hosts: --hosts 2",
        ),
        (hardware.fabric and medium == "collective" and hosts > 1, FABRIC),
        (hardware.nic is None and (hosts > 1 or medium == "TCP"), nic),
        (
            medium == "collective" and hosts not in (1, ranks) and not params.get("operation"),
            "keep the lines around its table: they say which collective it was",
        ),
        (medium in ("host to GPU", "GPU to GPU") and hardware.bus is None, "use --hardware a100"),
    )
    return next((text for applies, text in reasons if applies), "")


def _collective(
    definition: Definition, params: Mapping[str, Scalar], hardware: Hardware
) -> Bound | None:
    """Bound bus bandwidth by the links of a GPU within a host, and by the network between hosts.

    If NVLink joins hosts, the network carries only a part of the data, and it is not known which.
    """
    del definition
    hosts, ranks = count(params, "hosts"), count(params, "ranks")
    operation = str(params.get("operation", ""))
    if hosts == 1:
        return _inside(operation, ranks, hosts, hardware)
    if hardware.fabric:
        return None
    outside = across(operation, ranks, hosts, hardware) if hosts else None
    if outside is None or ranks <= hosts:
        return outside
    inside = _inside(operation, ranks, hosts, hardware) or outside
    return min(outside, inside, key=lambda bound: bound.rate)


def _inside(operation: str, ranks: int, hosts: int, hardware: Hardware) -> Bound | None:
    """Bound bus bandwidth by the links of a GPU, through which a ring within a host sends it.

    The share of the data that stays within a host of g GPUs is the factor of g participants; the
    rest passes the network. A switch that adds up data needs each byte of S once, and returns its
    part to each GPU: S (g+1)/g in each direction, where a ring needs 2 S (g-1)/g. Bus bandwidth is
    always computed as for a ring.
    """
    here, word = ranks // max(1, hosts), FACTORS.get(operation, "")
    link = hardware.nvlink or hardware.bus
    if hardware.pair and (here <= PAIR or operation == "sendrecv"):
        link = hardware.pair
    if link is None:
        return None
    sums = bool(hardware.reduces and hardware.nvlink and here > PAIR) and word in ("", SUMMED)
    gain = 1.0
    if sums:
        gain = factor(SUMMED, ranks) * here / (here + 1)
    elif hosts > 1:
        stays = (here - 1) / ranks if operation == "alltoall" else _shared(word, here)
        gain = factor(word, ranks) / stays
    what = f"{_links(link)} of a GPU" if hardware.nvlink else "PCIe of a GPU"
    how = "the switch sums (NVLS)" if sums else "a ring"
    ring = Bound(rate=link.rate, limit=f"{what}, {how} ({link.source})")
    found = scaled(_unless_bridged(ring, hardware), gain, f"one way: {times(gain)}")
    return found if hosts > 1 else _between_bridges(found, operation, here, hardware)


def _between_bridges(found: Bound, operation: str, ranks: int, hardware: Hardware) -> Bound:
    """Bound more boards than a bridge joins by PCIe: between those, there is no NVLink.

    The boards of a bridge share what has to leave them, as the ranks of a host share its network.
    """
    joined = hardware.joins
    if hardware.nvlink is None or hardware.bridge is None or hardware.bus is None:
        return found
    if ranks <= joined or operation not in FACTORS:
        return found
    groups = -(-ranks // joined)
    share = network_share(operation, ranks, groups)
    words = f"one way, {groups} x {joined} bridged boards: {times(share)}"
    slots = Bound(
        rate=joined * hardware.bus.rate, limit=f"{joined} x PCIe of a GPU ({hardware.bus.source})"
    )
    return min(found, scaled(slots, share, words), key=lambda bound: bound.rate)


def _unless_bridged(found: Bound, hardware: Hardware) -> Bound:
    """Add to a bound by PCIe that it does not hold if NVLink bridges join the boards."""
    bridge = hardware.bridge
    if hardware.nvlink or bridge is None or found.rate >= bridge.rate:
        return found
    words = f"NVLink bridges of a GPU ({bridge.source})"
    otherwise = Bound(rate=bridge.rate, limit=words)
    return msgspec.structs.replace(found, assumes=UNBRIDGED, otherwise=otherwise)


def _links(figure: Figure) -> str:
    return "Infinity Fabric" if "Infinity Fabric" in figure.source else "NVLink"


def _shared(word: Factor, here: int) -> float:
    """Return the share of the size that must pass between the GPUs of one of several hosts."""
    return factor("(n-1)/n" if word in ("", "1") else word, here)


def _peers(
    definition: Definition, params: Mapping[str, Scalar], hardware: Hardware
) -> Bound | None:
    """Bound copies between two GPUs of a host by all links of a GPU, or by PCIe without P2P."""
    direct = params.get("p2p") != "off"
    if direct and hardware.nvlink:
        links = hardware.pair or hardware.nvlink
        some = "those to one other" if hardware.pair else "all links"
        words = f"{_links(links)} of a GPU, {some} ({links.source})"
        return in_ways(definition, Bound(rate=links.rate, limit=words))
    if hardware.bus is None:
        return None
    slot = Bound(rate=hardware.bus.rate, limit=f"PCIe of a GPU ({hardware.bus.source})")
    return in_ways(definition, _unless_bridged(slot, hardware) if direct else slot)


def _host_to_gpu(
    definition: Definition, params: Mapping[str, Scalar], hardware: Hardware
) -> Bound | None:
    if hardware.bus is None:
        return None
    rate, words = _of_all_devices(hardware.bus, params)
    return in_ways(definition, Bound(rate=rate, limit=words))


def _gpu_memory(
    definition: Definition, params: Mapping[str, Scalar], hardware: Hardware
) -> Bound | None:
    if hardware.memory is None:
        return None
    rate, source = _of_all_devices(hardware.memory, params)
    words = f"read and write together: memory of the GPU ({source})"
    if definition.flow == "one way":
        rate, words = rate / 2, f"read and written: half of the GPU's memory ({source})"
    if 0 < count(params, "size") <= MOST_CACHED:
        return Bound(rate=rate, limit=words, assumes=NOT_CACHED)
    if hardware.raised and SAID not in source:
        most = Bound(rate=MOST_RAISED * rate, limit=f"{MOST_RAISED} x {words}")
        return Bound(rate=rate, limit=words, assumes=NOT_RAISED, otherwise=most)
    return Bound(rate=rate, limit=words)


def _of_all_devices(one: Figure, params: Mapping[str, Scalar]) -> tuple[float, str]:
    """Return the rate of all devices of a test together, and its source."""
    devices = max(1, count(params, "devices"))
    many = f"{devices} x " if devices > 1 else ""
    return one.rate * devices, f"{many}{one.source}"


_BY_MEDIUM: dict[Medium, Callable[[Definition, Mapping[str, Scalar], Hardware], Bound | None]] = {
    "TCP": tcp,
    "network": messages,
    "RDMA": verbs,
    "collective": _collective,
    "GPU to GPU": _peers,
    "host to GPU": _host_to_gpu,
    "GPU memory": _gpu_memory,
}
