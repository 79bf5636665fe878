"""The best value that a link allows, and the share of it that was reached.

A value above its bound is not a success, but an error in its definition or in the link's figures
(T. Hoefler, R. Belli, "Scientific benchmarking of parallel computing systems", SC15, rule 11).
"""

import math
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from cluster.core.model.hosts import HEADER_BYTES, Interface, Link
from cluster.core.model.results.limits import Figure, Limit, slot_bandwidth
from cluster.core.model.results.measurements import Definition, Factor, Measurement, Summary
from cluster.core.model.value import Scalar, Value
from cluster.core.text.units import format_rate

FRAME = 38  # bytes on the line around a packet: preamble 8, Ethernet 14, checksum 4, gap 12
MEMORY = "memory_copy"  # the metric that bounds messages between ranks of one host
OVER_TCP = ("iperf",)  # benchmarks that open connections of their own, whatever MPI uses
BELIEVABLE = 1.02  # of a bound: clocks and nominal rates are not exact
OFF_NETWORK = ("host to GPU", "GPU to GPU", "GPU memory")  # media that no network is part of


class Route(Value, frozen=True, kw_only=True):
    """The links and memories that the bytes of a run pass."""

    # of the hosts that take part; empty for one host, as no network is used
    links: tuple[Link | None, ...] = ()
    # the rank that only sends, if each rank has times of its own. Its time ends when its buffer is
    # free again, with the last megabytes still in the kernel's buffers, so no link bounds it.
    sender: int | None = None
    ranks: int = 1
    copies: dict[int, float] = msgspec.field(default_factory=dict)  # B/s on one host, by size
    gpus: Figure | None = None


def goodput(link: Link, flows: int = 1) -> float:
    """Return the highest payload rate of TCP over IPv4 through a link, in one direction, in B/s.

    Each packet of MTU bytes carries MTU - E - 52 bytes of data (IPv4 20, TCP 20, its timestamps 12;
    E for an encapsulation) and takes the line for MTU + 38 (preamble 8, Ethernet header 14,
    checksum 4, gap 12: IEEE 802.3; RFC 791, 9293, 7323): 94.15 % at 1500, 99.00 % at 9000.
    """
    rate = link.rate if link.flow is None else min(link.rate, flows * link.flow)
    return rate * (link.mtu - link.encapsulation - HEADER_BYTES) / (link.mtu + FRAME)


def bound(definition: Definition, links: Iterable[Link | None], flows: int = 1) -> float | None:
    """Return the B/s that the slowest link allows a metric, both ways if it uses both."""
    goodputs = [
        None if link is None else goodput(_message_link(definition, link), flows) for link in links
    ]
    rates = [rate for rate in goodputs if rate is not None]
    if not definition.flow or not rates or len(rates) < len(goodputs):
        return None
    return min(rates) * (2 if definition.flow == "both ways" else 1)


def _message_link(definition: Definition, link: Link) -> Link:
    """Return the link as messages use it: a fabric has no limit for each TCP connection."""
    if definition.benchmark in OVER_TCP:
        return msgspec.structs.replace(link, fabric="")
    return msgspec.structs.replace(link, flow=None) if link.fabric else link


def copy_rates(measurements: Iterable[Measurement]) -> dict[int, float]:
    """Return the bytes per second of the best copy of each size that was measured with messages."""
    copies = [m for m in measurements if m.metric == MEMORY and m.values and "size" in m.params]
    return {int(m.params["size"]): m.bytes / min(m.values) for m in copies}


def with_link_bound(summary: Summary, definition: Definition, size: int, route: Route) -> Summary:
    """Add the bound of a route on `size` bytes, and the share that the median reaches."""
    if definition.medium in OFF_NETWORK:
        return summary
    flows = summary.params.get("streams", 1)
    rate = bound(definition, route.links, flows if isinstance(flows, int) else 1)
    if rate is None:
        limit = _within_host(definition, route, summary.params.get("size", 0))
    else:
        slowest = _message_link(definition, min(filter(None, route.links), key=goodput))
        limit = Limit(
            kind="efa" if slowest.fabric else "tcp",
            rate=rate,
            flow=definition.flow,
            source=slowest.source,
            mtu=slowest.mtu,
            line=slowest.rate,
            per_connection=slowest.flow or 0.0,
        )
    if limit is None or (route.sender is not None and summary.params.get("rank") == route.sender):
        return summary
    rate = limit.rate
    if definition.factor:
        rate /= _crossing(definition, route)
    if definition.rate == "bus":
        rate *= factor(definition.factor, route.ranks)
    if not size and summary.unit != "B/s":
        return summary
    return _with_limit(summary, size, msgspec.structs.replace(limit, rate=rate))


def _with_limit(summary: Summary, size: int, limit: Limit) -> Summary:
    """Add a limit to a summary of rates, or of the times of `size` bytes."""
    best = limit.rate if summary.unit == "B/s" else size / limit.rate
    part = share(summary.median, best, summary.unit)
    return msgspec.structs.replace(summary, bound=best, share=part, limit=limit)


def _within_host(definition: Definition, route: Route, size: Scalar) -> Limit | None:
    """Limit messages between two ranks of a host by what connects their GPUs, or by its memory."""
    flow, ways = definition.flow, {"one way": 1, "both ways": 2}.get(definition.flow, 0)
    if ways and definition.buffer and route.gpus:
        gpus = route.gpus
        return Limit(
            kind="gpu_pair", rate=gpus.rate * ways, flow=flow, source=gpus.source, part=gpus.part
        )
    # A message is copied whole, or as parts of a larger copy.
    copies = route.copies if ways and not definition.buffer else {}
    as_large = [rate for n, rate in copies.items() if not isinstance(size, str) and n >= size]
    rate = max(as_large or copies.values(), default=0.0)
    return Limit(kind="memory_copy", rate=rate * ways, flow=flow) if rate else None


def with_given_bound(
    summary: Summary, definition: Definition, limit: Limit, hosts: int, ranks: int
) -> Summary:
    """Bound a summary by a network that the user named, instead of the one that was found.

    `limit` is what a host's network carries in each direction. Without a bound and share if the
    network bounds nothing, as on one host.
    """
    size = summary.params.get("size")
    rate = limit.rate * (2 if definition.flow == "both ways" else 1)
    if definition.factor and hosts > 1:
        rate /= _crossing(definition, Route(links=(None,) * hosts, ranks=ranks))
        rate *= factor(definition.factor, ranks) if definition.rate == "bus" else 1.0
    passes = not definition.factor or hosts > 1
    if summary.unit not in ("B/s", "s") or not isinstance(size, int) or not size or not passes:
        return msgspec.structs.replace(summary, bound=None, share=None, limit=None)
    return _with_limit(summary, size, msgspec.structs.replace(limit, rate=rate))


def share(median: float, bound: float, unit: str) -> float:
    """Return the share of its limit, in B/s or s as it, that a median reaches; it may exceed 1."""
    if unit == "B/s":
        return median / bound
    return bound / median if median > 0 else math.inf


def _crossing(definition: Definition, route: Route) -> float:
    """Return the share of a collective's size that must pass a host's link, in one direction.

    The ranks of a host can share the data that arrives, and add up their data before it is sent. So
    for N hosts, the share is the factor of N participants, a lower bound for any algorithm unless
    switches add up data (E. Chan et al., "Collective communication: theory, practice, and
    experience", CCPE 19, 2007). In an alltoall, each rank needs data of its own.
    """
    hosts = len(route.links)
    per_host = route.ranks / hosts if definition.flow == "between ranks" else 1.0
    return factor(definition.factor, hosts) * per_host


Doubt = Literal["above_assumption", "above_limit", "no_time"]
WAIT = "_wait"  # the end of a metric's name: often there is nothing to wait for


def doubts(summary: Summary) -> Iterator[Doubt]:
    """Find how a value is better than possible: by more than 2 %, or with a time of 0."""
    if summary.share is not None and summary.share > BELIEVABLE:
        is_assumed = summary.limit is not None and summary.limit.assumption is not None
        yield "above_assumption" if is_assumed else "above_limit"
    if _timeless(summary):
        yield "no_time"


def _timeless(summary: Summary) -> bool:
    """Tell whether half of the values are times of 0, or any of them is negative."""
    shape = summary.shape
    if shape is None or summary.unit not in ("s", "B/s"):
        return False
    if summary.metric.endswith(WAIT):
        return shape.minimum < 0
    is_empty = summary.median == 0 if summary.unit == "s" else summary.median == math.inf
    return is_empty or shape.minimum < 0


def interface_link(interface: Interface) -> Link | None:
    """Return the link of a network interface, as the kernel of its host reports it.

    The PCIe slot's rate counts if it is lower; None if the kernel reports no rate.
    """
    if not interface.speed or not interface.mtu:
        return None
    rate, source = interface.speed, f"Linux: {interface.name}, {format_rate(interface.speed)}"
    slot = slot_bandwidth(interface.slot)
    if slot and slot.rate < rate:
        rate, source = slot.rate, f"{source}, slot: {slot.source}"
    return Link(rate=rate, mtu=interface.mtu, flow=interface.flow or None, source=source)


def factor(word: Factor, n: int) -> float:
    """Return the factor of a collective, such as `2(n-1)/n`, for n participants; 1 without one.

    It is the share of the data that must pass each link of a ring: NVIDIA nccl-tests,
    doc/PERFORMANCE.md, where n is the number of ranks. With n hosts, it is the share that must pass
    the link of each host, if the ranks of a host share the data that passes it.
    """
    once = (n - 1) / n
    return {"(n-1)/n": once, "2(n-1)/n": 2 * once}.get(word, 1.0)


def with_rates(
    measurements: Iterable[Measurement], definitions: Iterable[Definition]
) -> Iterator[Measurement]:
    """Add the rates that are defined by the times of other metrics."""
    rates = [definition for definition in definitions if definition.rate_of]
    for measurement in measurements:
        yield measurement
        ranks = measurement.params.get("ranks")
        for rate in (rate for rate in rates if rate.rate_of == measurement.definition):
            values = measurement.values
            if rate.rate == "bus" and isinstance(ranks, int):
                share = factor(rate.factor, ranks)  # bytes over these times are the bus bandwidth
                values = tuple(value / share for value in values)
            yield msgspec.structs.replace(
                measurement, metric=rate.metric, definition=rate.id, values=values
            )
