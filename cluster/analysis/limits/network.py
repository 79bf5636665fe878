"""Bounds of what hosts exchange through their network: TCP, messages, collectives.

A bound that holds only under an assumption, which neither the log nor the user stated, says so, and
knows the bound without it.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from cluster.analysis.limits.hardware import is_efa
from cluster.analysis.limits.link import factor, goodput
from cluster.core.model.hosts import HEADER_BYTES, Link
from cluster.core.model.results.limits import Assumption, Figure, Hardware, Limit, LimitKind
from cluster.core.model.results.measurements import Definition, Factor
from cluster.core.model.value import Scalar

Params = Mapping[str, Scalar]  # the parameters that a value was measured with

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
# In an interval, a sender's kernel may take more than it sends.
RECEIVER = Assumption(kind="receiver_wrote_log")
UDP_SAVES = 24  # bytes: UDP's header has 8, TCP's with its time stamps 32
MTU, JUMBO = 1500, 9000  # of Ethernet: usual, and the largest that is usual


def scale(limit: Limit, factor: float, **changes: Any) -> Limit:  # noqa: ANN401 - fields of a limit
    """Multiply a limit, and what it is without its assumption."""
    otherwise = None if limit.otherwise is None else scale(limit.otherwise, factor, **changes)
    return replace(limit, rate=factor * limit.rate, otherwise=otherwise, **changes)


def in_ways(definition: Definition, limit: Limit) -> Limit:
    """Return a limit of one direction for the directions of a metric."""
    return scale(limit, 2 if definition.flow == "both ways" else 1, flow=definition.flow)


def tcp(definition: Definition, params: Params, hardware: Hardware) -> Limit | None:
    """Bound TCP between two hosts, less frames and headers, and with the cap of a connection.

    An interval may be of a sender, which the log does not say. Of the point, `streams` and
    `protocol` are used; None if the network is not known, or on one host.
    """
    if count(params, "hosts") == 1:
        return None
    limit = _connections(definition, params, hardware)
    if limit is None or definition.metric != "interval":
        return limit
    other = limit.otherwise and replace(limit.otherwise, assumption=RECEIVER)
    return replace(limit, assumption=limit.assumption or RECEIVER, otherwise=other)


def _connections(definition: Definition, params: Params, hardware: Hardware) -> Limit | None:
    if hardware.nic is None or (definition.metric == "sent" and params.get("protocol") == "UDP"):
        return None
    streams, flow = count(params, "streams"), hardware.flow
    is_udp = params.get("protocol") == "UDP"
    whole = in_ways(definition, _ethernet(hardware, hardware.nic, is_udp=is_udp))
    if flow is None or not streams or streams * flow.rate >= hardware.nic.rate:
        return whole
    jumbo = replace(hardware, mtu=hardware.mtu or JUMBO)
    figure = Figure(rate=streams * flow.rate, source=flow.source)
    cap = replace(_ethernet(jumbo, figure, is_udp=is_udp), count=streams, connections=True)
    if flow.is_stated:
        return in_ways(definition, cap)
    assumption = Assumption(kind="connection_held", rate=flow.rate, source=flow.source)
    return replace(in_ways(definition, cap), assumption=assumption, otherwise=whole)


def _ethernet(hardware: Hardware, nic: Figure, *, is_udp: bool = False) -> Limit:
    """Limit TCP or UDP by what packets of an MTU carry; an unknown MTU is assumed."""

    def limit_at(mtu: int) -> Limit:
        link = Link(rate=nic.rate, mtu=mtu, source=nic.source)
        gain = 1 + UDP_SAVES / (mtu - HEADER_BYTES) if is_udp else 1.0
        kind: LimitKind = "udp" if is_udp else "tcp"
        return Limit(kind=kind, rate=goodput(link) * gain, mtu=mtu, source=nic.source)

    if hardware.mtu:
        return limit_at(hardware.mtu)
    return replace(
        limit_at(MTU), assumption=Assumption(kind="mtu", mtu=MTU), otherwise=limit_at(JUMBO)
    )


def messages(definition: Definition, params: Params, hardware: Hardware) -> Limit | None:
    """Bound messages between hosts by all NICs of a host together; without RDMA, with TCP.

    Of the point, `hosts` and `pairs` are used; None if the network or `hosts` is not known.
    """
    is_sender = definition.aggregation == "each rank" and params.get("rank") == 0
    if hardware.nic is None or count(params, "hosts") < PAIR or is_sender:
        return None  # a sender's time ends when its buffer is free, and bytes are still in transit
    hosts, pairs = count(params, "hosts"), count(params, "pairs")
    # Ranks that run, beside others that wait or run, may all be on one host.
    ranks, waiting, groups = (count(params, name) for name in ("processes", "waiting", "groups"))
    idle = waiting + (groups - 1) * ranks if groups else waiting
    if idle > 0 and ranks * hosts <= ranks + idle:
        whole = messages(definition, {**params, "waiting": 0, "groups": 0}, hardware)
        assumption = Assumption(kind="several_hosts", hosts=hosts)
        return whole and replace(whole, assumption=assumption, otherwise=None)
    line = _line(hardware, hardware.nic)
    if not pairs and definition.aggregation == "all ranks" and hosts > PAIR:
        half = scale(line, hosts // 2, senders=hosts // 2, half_of_hosts=True)
        assumption = Assumption(kind="half_of_hosts_send", hosts=hosts)
        return replace(in_ways(definition, half), assumption=assumption, otherwise=None)
    if pairs < PAIR:
        return in_ways(definition, line)
    senders = min(pairs, hosts // 2)
    limit = in_ways(definition, scale(line, senders, senders=senders))
    if 2 * pairs == hosts:  # one rank on each host: each pair has two hosts
        return limit
    assumption = Assumption(kind="pairs_send_from_hosts", pairs=pairs, senders=senders, hosts=hosts)
    return replace(limit, assumption=assumption, otherwise=None)


def verbs(definition: Definition, params: Params, hardware: Hardware) -> Limit | None:
    """Bound what goes by RDMA in any case, as perftest's messages do; None on one host."""
    return messages(definition, params, replace(hardware, rdma=True))


def _line(hardware: Hardware, nic: Figure) -> Limit:
    """Limit what the processes of a host send to other hosts."""
    kind: LimitKind = "efa" if is_efa(hardware) else "rdma"
    whole = Limit(kind=kind, rate=nic.rate, source=nic.source, host=True)
    if hardware.rdma:
        return whole
    limit = scale(_ethernet(hardware, nic), 1, host=True)
    if hardware.rdma is None:
        assumption = Assumption(kind="messages_by_tcp")
        return replace(limit, assumption=assumption, otherwise=whole)
    return limit


def between_hosts(operation: str, ranks: int, hosts: int, hardware: Hardware) -> Limit | None:
    """Bound bus bandwidth of an operation such as `all_reduce` by the network of a host.

    A host must send the data of its ranks for other hosts, in one direction: the factor of the
    number of hosts for collectives whose ranks share data, and this times its ranks for an alltoall
    (E. Chan et al., "Collective communication: theory, practice, and experience", CCPE 19, 2007).
    In a sendrecv, each rank sends to the next, so only one rank of a host sends to another host.
    The PCIe slots of a few GPUs may not be enough to fill the network. If switches sum, a host
    sends the data of an allreduce once, and not 2(N-1)/N times. None if something is not known.
    """
    if hardware.nic is None or not ranks or (operation not in FACTORS and ranks != hosts):
        return None
    line = _line(hardware, hardware.nic)
    if operation == "sendrecv":
        return _to_next_host(ranks // hosts, hardware, line)
    senders = max(1, ranks // hosts)
    if hardware.bus and senders * hardware.bus.rate < line.rate:
        line = replace(slots(hardware.bus, senders), host=True)
    share = network_share(operation, ranks, hosts)
    limit = scale(line, share, flow="one way", hosts=hosts, times=share)
    gain = share * factor(SUMMED, hosts)
    if FACTORS.get(operation, SUMMED) != SUMMED or hardware.rdma is False or gain <= share:
        return limit
    whole = line.otherwise or line
    sharp = scale(whole, gain, flow="one way", hosts=hosts, times=gain)
    return _unless(limit, Assumption(kind="no_sharp"), sharp)


def slots(bus: Figure, count: int) -> Limit:
    """Limit by the PCIe slots of so many GPUs."""
    return Limit(kind="pcie", rate=count * bus.rate, count=count, source=bus.source)


def _unless(limit: Limit, assumption: Assumption, otherwise: Limit) -> Limit:
    """Add an assumption behind those that a limit has."""
    if limit.otherwise is None:
        return replace(limit, assumption=assumption, otherwise=otherwise)
    return replace(limit, otherwise=_unless(limit.otherwise, assumption, otherwise))


def _to_next_host(ranks: int, hardware: Hardware, line: Limit) -> Limit:
    """Limit what one rank can send to another host by the NICs next to its GPU."""
    if hardware.bus and hardware.bus.rate < line.rate:
        line = slots(hardware.bus, 1)
    whole = scale(line, 1, flow="one way")
    nics = max(1, hardware.nics // max(hardware.gpus, ranks))
    if hardware.nic is None or nics >= hardware.nics:
        return whole
    rate = hardware.nic.rate * nics / hardware.nics
    if rate >= whole.rate:
        return whole
    return Limit(
        kind="interfaces",
        rate=rate,
        flow="one way",
        count=nics,
        of=hardware.nics,
        source=hardware.nic.source,
        assumption=Assumption(kind="nearest_interfaces", nics=nics),
        otherwise=whole,
    )


def network_share(operation: str, ranks: int, hosts: int) -> float:
    """Return bus bandwidth over the rate at which a host must send.

    With one rank on each host, the factors of an operation such as `all_reduce` cancel out. It is 1
    for a ring, which sends more than necessary if a host has several ranks.
    """
    word = FACTORS.get(operation, "1")
    per_host = ranks / hosts if operation == "alltoall" else 1.0
    return factor(word, ranks) / (factor(word, hosts) * per_host)


def count(params: Params, name: str) -> int:
    """Return a number of a point; 0 if there is none."""
    value = params.get(name, 0)
    return value if isinstance(value, int) else 0
