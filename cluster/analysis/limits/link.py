"""The best value that a link allows, and the share of it that was reached.

A value above its bound is not a success, but an error in its definition or in the link's figures
(T. Hoefler, R. Belli, "Scientific benchmarking of parallel computing systems", SC15, rule 11).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from cluster.analysis.limits.rates import factor
from cluster.core.model.hardware import Figure
from cluster.core.model.hosts import HEADER_BYTES, Link
from cluster.core.model.value import Value
from cluster.core.units import format_point, format_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cluster.core.model.measurements import Definition, Measurement, Summary

FRAME = 38  # bytes on the line around a packet: preamble 8, Ethernet 14, checksum 4, gap 12
MEMORY = "memory_copy"  # the metric that bounds messages between ranks of one host
OVER_TCP = ("iperf",)  # benchmarks that open connections of their own, whatever MPI uses
BELIEVABLE = 1.02  # of a bound: clocks and nominal rates are not exact
OFF_NETWORK = ("host to GPU", "GPU to GPU", "GPU memory")  # media that no network is part of


class Route(Value, frozen=True, kw_only=True):
    """The links and memories that the bytes of a run pass.

    Args:
        links: of the hosts that take part; empty for one host, as no network is used.
        sender: the rank that only sends, if each rank has times of its own. Its time ends when its
            buffer is free again, with the last megabytes still in the kernel's buffers, so no link
            bounds it.
        memory: on one host, the rate of a copy in its memory in bytes per second; 0 if not known.

    """

    links: tuple[Link | None, ...] = ()
    sender: int | None = None
    ranks: int = 1
    memory: float = 0.0
    gpus: Figure | None = None


def goodput(link: Link, flows: int = 1) -> float:
    """Return the highest payload rate of TCP over IPv4 through a link, in one direction.

    Each packet of MTU bytes carries MTU - E - 52 bytes of data (IPv4 20, TCP 20, its timestamps
    12; E for an encapsulation) and takes the line for MTU + 38 (preamble 8, Ethernet header 14,
    checksum 4, gap 12: IEEE 802.3; RFC 791, 9293, 7323): 94.15 % at 1500, 99.00 % at 9000.

    Returns:
        Bytes per second.

    """
    rate = link.rate if link.flow is None else min(link.rate, flows * link.flow)
    return rate * (link.mtu - link.encapsulation - HEADER_BYTES) / (link.mtu + FRAME)


def bound(definition: Definition, links: Iterable[Link | None], flows: int = 1) -> float | None:
    """Return the highest rate that links allow a metric: that of the slowest of them.

    Args:
        definition: of the metric; bytes that flow both ways use both directions of a link.

    Returns:
        Bytes per second; none if no bandwidth bounds the metric, or a link is not known.

    """
    known = [None if link is None else goodput(_passed(definition, link), flows) for link in links]
    rates = [rate for rate in known if rate is not None]
    if not definition.flow or not rates or len(rates) < len(known):
        return None
    return min(rates) * (2 if definition.flow == "both ways" else 1)


def _passed(definition: Definition, link: Link) -> Link:
    """Return the link as messages use it: a fabric has no limit for each TCP connection."""
    if definition.benchmark in OVER_TCP:
        return msgspec.structs.replace(link, fabric="")
    return msgspec.structs.replace(link, flow=None) if link.fabric else link


def copy_rate(measurements: Iterable[Measurement]) -> float:
    """Find the rate of copies in a host's memory, if it was measured together with messages.

    Returns:
        Bytes per second of the best copy; 0 if there was none.

    """
    copies = [m for m in measurements if m.metric == MEMORY and m.values]
    return max((m.bytes / min(m.values) for m in copies), default=0.0)


def with_link_bound(summary: Summary, definition: Definition, size: int, route: Route) -> Summary:
    """Add the bound to a summary, and the share of it that the median reaches.

    Args:
        size: bytes that moved during each value.
        route: that these bytes took.

    Returns:
        The summary; unchanged if there is no bound.

    """
    if definition.medium in OFF_NETWORK:
        return summary
    flows = summary.params.get("streams", 1)
    rate = bound(definition, route.links, flows if isinstance(flows, int) else 1)
    limit = _link_limit(definition, route)
    if rate is None:
        rate, limit = _bound_within_host(definition, route)
    if rate is None or (route.sender is not None and summary.params.get("rank") == route.sender):
        return summary
    if definition.factor:
        rate /= _crossing(definition, route)
    if definition.rate == "bus":
        rate *= factor(definition.factor, route.ranks)
    if not size and summary.unit != "B/s":
        return summary
    best = rate if summary.unit == "B/s" else size / rate
    part = share(summary.median, best, summary.unit)
    return msgspec.structs.replace(summary, bound=best, share=part, limit=limit)


def _bound_within_host(definition: Definition, route: Route) -> tuple[float | None, str]:
    """Bound messages between two ranks of a host by what connects their GPUs, or by its memory."""
    ways = {"one way": 1, "both ways": 2}.get(definition.flow, 0)
    if ways and definition.buffer and route.gpus:
        return route.gpus.rate * ways, f"{definition.flow}: between two GPUs, {route.gpus.source}"
    if ways and not definition.buffer and route.memory:
        words = f"{definition.flow}: a copy in memory by one rank, measured in this run"
        return route.memory * ways, words
    return None, ""


def with_given_bound(
    summary: Summary, definition: Definition, rate: float, hosts: int, ranks: int
) -> Summary:
    """Bound a summary by a network that the user named, instead of the one that was found.

    Args:
        rate: that a host's network carries in each direction, in bytes per second.

    Returns:
        The summary with that bound and the share of it; without both if the network bounds nothing,
        as on one host.

    """
    size = summary.params.get("size")
    if definition.flow == "both ways":
        rate *= 2
    if definition.factor and hosts > 1:
        rate /= _crossing(definition, Route(links=(None,) * hosts, ranks=ranks))
        rate *= factor(definition.factor, ranks) if definition.rate == "bus" else 1.0
    passes = not definition.factor or hosts > 1
    if summary.unit not in ("B/s", "s") or not isinstance(size, int) or not size or not passes:
        return msgspec.structs.replace(summary, bound=None, share=None, limit="")
    best = rate if summary.unit == "B/s" else size / rate
    part = share(summary.median, best, summary.unit)
    return msgspec.structs.replace(summary, bound=best, share=part, limit="as given")


def share(median: float, bound: float, unit: str) -> float:
    """Compute the share of its limit that a median reaches.

    Args:
        unit: of both: `B/s` or `s`.

    Returns:
        The share; above 1, the value is faster than possible.

    """
    if unit == "B/s":
        return median / bound
    return bound / median if median > 0 else math.inf


def _link_limit(definition: Definition, route: Route) -> str:
    """Describe what sets the bound: the slowest link."""
    links = [link for link in route.links if link is not None]
    if not links:
        return ""
    slowest = min(links, key=goodput)
    slowest = _passed(definition, slowest)
    flow = f", {format_rate(slowest.flow)} a connection" if slowest.flow else ""
    return (
        f"{definition.flow}: {slowest.fabric or 'TCP'} over {format_rate(slowest.rate)}{flow}, "
        f"MTU {slowest.mtu} ({slowest.source})"
    )


def _crossing(definition: Definition, route: Route) -> float:
    """Return the share of a collective's size that must pass a host's link, in one direction.

    The ranks of a host can share the data that arrives, and add up their data before it is sent. So
    for N hosts, the share is the factor of N participants, a lower bound for any algorithm unless
    switches add up data (E. Chan et al., "Collective communication: theory, practice, and
    experience", CCPE 19, 2007). In an alltoall, each rank needs data of its own.
    """
    hosts = len(route.links)
    each = route.ranks / hosts if definition.flow == "between ranks" else 1.0
    return factor(definition.factor, hosts) * each


def implausible_values(summaries: Iterable[Summary]) -> Iterator[str]:
    """Find values that are better than possible: by more than 2 %, or with a time of 0."""
    for summary in summaries:
        if summary.share is not None and summary.share > BELIEVABLE and summary.assumes:
            yield (
                f"{summary.metric} ({format_point(summary.params)}) is {summary.share:.1%} of what "
                f"is possible if {summary.assumes}, which neither the log nor --hardware states."
            )
        elif summary.share is not None and summary.share > BELIEVABLE:
            yield (
                f"{summary.metric} ({format_point(summary.params)}) is {summary.share:.1%} of its "
                "limit, which is faster than possible: do not believe it. The link's rate or MTU "
                "is not as stated, a shaper lets a burst of this size pass, or the bytes took "
                "another path."
            )
        if _timeless(summary):
            yield (
                f"{summary.metric} ({format_point(summary.params)}) has values that took no time, "
                "or less: do not believe it. The clock cannot measure such a short time, or the "
                "record is damaged."
            )


WAIT = "_wait"  # the end of a metric's name: often there is nothing to wait for


def _timeless(summary: Summary) -> bool:
    """Tell whether half of the values are times of 0, or any of them is negative."""
    shape = summary.shape
    if shape is None or summary.unit not in ("s", "B/s"):
        return False
    if summary.metric.endswith(WAIT):
        return shape.minimum < 0
    none = summary.median == 0 if summary.unit == "s" else summary.median == math.inf
    return none or shape.minimum < 0
