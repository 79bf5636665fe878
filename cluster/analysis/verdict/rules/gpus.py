"""Problems of GPUs: slow transports that NCCL fell back to, and copies that take a detour."""

from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from cluster.analysis.limits import hardware
from cluster.analysis.limits.devices import bound
from cluster.analysis.verdict.evidence import Confidence, Evidence, Finding, count
from cluster.core.model.logs import NcclEdge, NcclLog
from cluster.core.model.results.limits import Figure, Hardware
from cluster.core.model.results.measurements import Summary
from cluster.core.model.value import Scalar

SLOWER = 0.75  # of the rate without peer-to-peer: below this, peer-to-peer does harm
ALIKE = 0.1  # relative difference up to which matrices with and without peer-to-peer are the same
FAR = 1.5  # near memory's rate over far memory's, from which the NUMA node matters
SLOW = 0.5  # of the bound
LARGE = 8 << 20  # bytes of a copy from which it fills a slot
CARRIED = 0.75  # of what iperf measured over TCP: below this, TCP itself is not the limit
NICS = ("IB", "AWS Libfabric", "OFI", "IBext", "NCCL RDMA Plugin", "gIB")
OVER_TCP = ("a3-highgpu-8g", "a3-megagpu-8g")  # with GPUDirect-TCPX, -TCPXO: faster than sockets


def cuda_ipc(evidence: Evidence) -> Finding | None:
    """Open MPI reports errors of CUDA IPC."""
    line = evidence.symptom("cuda_ipc")
    return Finding(kind="cuda_ipc", confidence="likely", text=line) if line else None


def no_gpudirect(evidence: Evidence) -> Finding | None:
    """NCCL copies through the host's memory although the NIC could access the GPU directly."""
    if evidence.hardware is not None and not evidence.hardware.gpudirect:
        return None  # no GPU has it there
    line = evidence.symptom("peermem")
    for log in evidence.nccl:
        copies = [edge for edge in _between(log) if not edge.direct]
        if log.copied_sends and copies:  # the module is loaded: it serves the receives
            return Finding(kind="gdr_reads_off", confidence="certain", edge=copies[0])
        edges = [e for e in _between(log) if e.via.split("/")[1].startswith(NICS)]
        indirect = [e for e in edges if not e.direct]
        if indirect:
            lacks = evidence.hardware is None and all(
                "AWS Libfabric" in edge.via for edge in indirect
            )
            return Finding(
                kind="efa_without_gpudirect" if lacks else "no_gpudirect",
                confidence="certain" if len(indirect) == len(edges) and not lacks else "likely",
                text=line,
                edge=indirect[0],
                count=len(indirect),
                other_count=len(edges),
            )
    return None


def on_sockets(evidence: Evidence) -> Finding | None:
    """NCCL uses TCP between hosts that have something faster."""
    name = evidence.instance if evidence.instance in hardware.names() else ""
    board = evidence.hardware or (hardware.find(name) if name else None)
    fast = board if board and (board.rdma or board.name in OVER_TCP) else None
    for log in evidence.nccl:
        sockets = [e for e in _between(log) if e.via.startswith("NET/Socket")]
        if not sockets and not (log.nodes > 1 and set(log.networks) == {"Socket"}):
            continue
        other = [name for name in log.networks if name.startswith(NICS)]
        return Finding(
            kind="nccl_on_sockets",
            confidence="certain" if fast or other else "possible",
            edge=sockets[0] if sockets else None,
            names=tuple(other),
            name=fast.name if fast else "",
        )
    return None


def slow_sockets(evidence: Evidence) -> Finding | None:
    """NCCL over TCP does not fill the network, and its number of sockets was not set."""
    on_tcp = any(e.via.startswith("NET/Socket") for log in evidence.nccl for e in _between(log))
    if not on_tcp or evidence.setting("NCCL_NSOCKS_PERTHREAD"):
        return None
    if few := _below_streams(evidence):
        return few
    # Nothing is known but what the network of the hosts allows.
    share = max((s.share for s in evidence.series("busbw") if s.share is not None), default=SLOW)
    low = share < SLOW
    return Finding(kind="few_sockets", confidence="possible", share=share) if low else None


def _below_streams(evidence: Evidence) -> Finding | None:
    """Compare bus bandwidth with what several connections of iperf carried on the same hosts."""
    several = [s for s in evidence.between_hosts() if count(s, "streams") > 1]
    if not several:
        return None
    fastest = several[0]
    network = Figure(rate=fastest.median, source="iperf")  # as bytes of data: nothing comes off
    hosts = Hardware(name="measured", nic=network, rdma=True)
    shares = [
        s.median / limit.rate
        for s in evidence.series("busbw")
        if (limit := bound(evidence.definitions[s.definition], s.params, hosts))
    ]
    if not shares or max(shares) >= CARRIED:
        return None
    return Finding(kind="few_sockets", confidence="likely", share=max(shares), other=fastest)


def level_by_number(evidence: Evidence) -> Finding | None:
    """NCCL_P2P_LEVEL is a number, whose meaning has changed, or it has no effect on transports."""
    level = evidence.setting("NCCL_P2P_LEVEL")
    vias = {e.transport for log in evidence.nccl for e in log.edges}
    if not level.isdigit() and not (level == "LOC" and "P2P" in vias):
        return None
    return Finding(kind="level_by_number", confidence="likely", name=level)


def peers_blocked(evidence: Evidence) -> Finding | None:
    """Peer-to-peer makes no difference, or PCIe bridges send it through the host (ACS)."""
    line = evidence.symptom("acs")
    series = evidence.series("p2p_bandwidth", "p2p_bidirectional")
    off_rates = {_pair(s): s.median for s in series if s.params.get("p2p") == "off"}
    with_p2p = [s for s in series if s.params.get("p2p") == "on"]
    gains = [s.median / off for s in with_p2p if (off := off_rates.get(_pair(s)))]
    is_equal = gains and all(abs(gain - 1) < ALIKE for gain in gains)
    if not is_equal and not line:
        return None
    board = _without_peers(evidence)
    if board and not is_equal:
        return None  # its peers are reached, with a driver that was patched, or never
    return Finding(
        kind="no_peers" if board else "peers_blocked",
        confidence="likely" if board or (is_equal and line) else "possible",
        name=board,
        text=line,
        share=median(gains) if is_equal else None,
        count=len(gains),
    )


def _without_peers(evidence: Evidence) -> str:
    """Name a board that never allows peer-to-peer."""
    models = [model for result in evidence.results for model in result.devices]
    models += [evidence.hardware.gpu] if evidence.hardware else []
    return next((model for model in models if "GeForce" in model), "")


def slow_peers(evidence: Evidence) -> Finding | None:
    """Copies from GPU to GPU are slower with peer-to-peer than through the host's memory."""
    series = evidence.series("p2p_bandwidth", "p2p_bidirectional")
    without_p2p = {_pair(s): s for s in series if s.params.get("p2p") == "off"}
    peers = [s for s in series if s.params.get("p2p") == "on"]
    pairs = [(s, without_p2p[_pair(s)]) for s in peers if _pair(s) in without_p2p]
    slow = [(with_p2p, off) for with_p2p, off in pairs if with_p2p.median < SLOWER * off.median]
    if not slow:
        return None
    with_p2p, off = min(slow, key=lambda pair: pair[0].median / pair[1].median)
    return Finding(
        kind="slow_peers",
        confidence="certain",
        name=_without_peers(evidence),
        series=with_p2p,
        other=off,
        count=len(slow),
        other_count=len(pairs),
    )


def _pair(summary: Summary) -> tuple[object, ...]:
    return (summary.metric, summary.params.get("row"), summary.params.get("column"))


def far_memory(evidence: Evidence) -> Finding | None:
    """Copies between a host and a GPU depend on the NUMA node, and no node was chosen."""
    copies: defaultdict[tuple[Scalar | None, ...], list[Summary]] = defaultdict(list)
    for copy in evidence.series("host_copy_bandwidth"):
        copies[copy.params.get("test"), copy.params.get("column")].append(copy)
    for group in copies.values():
        near, far = (choose(group, key=lambda s: s.median) for choose in (max, min))
        if near.median > FAR * far.median:
            return Finding(kind="far_memory", confidence="likely", series=near, other=far)
    slow = [
        s
        for s in evidence.series("host_to_device", "device_to_host")
        if s.params.get("memory") == "pinned"
        and s.share is not None
        and s.share < SLOW
        and s.params.get("devices") == 1
        and count(s, "size") >= LARGE
    ]
    return Finding(kind="far_memory", confidence="possible", series=slow[0]) if slow else None


def _between(log: NcclLog) -> Iterator[NcclEdge]:
    return (edge for edge in log.edges if edge.transport == "NET" and "/" in edge.via)


def unconnected(evidence: Evidence) -> Finding | None:
    """Each process is a job of its own: the program does not use the MPI that started it."""
    alone = [r for r in evidence.results if r.format == "nccl_tests" and r.ranks == 1]
    silent = evidence.series("busbw") and not any(s.median for s in evidence.series("busbw"))
    if not alone or not silent:
        return None
    sure: Confidence = "certain" if len(alone) > 1 else "likely"
    return Finding(kind="unconnected", confidence=sure, count=len(alone))


RULES = (
    *(cuda_ipc, no_gpudirect, on_sockets, slow_sockets, level_by_number, peers_blocked),
    slow_peers,
    *(far_memory, unconnected),
)
