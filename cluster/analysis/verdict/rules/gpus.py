"""Problems of GPUs: slow transports that NCCL fell back to, and copies that take a detour."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from cluster.analysis.limits.devices import bound
from cluster.analysis.verdict.evidence import Evidence, Finding, Trouble, count
from cluster.core.model.hardware import Figure, Hardware
from cluster.core.units import format_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.core.model.logs import NcclEdge, NcclLog, Parsed
    from cluster.core.model.measurements import Summary

SLOWER = 0.75  # of the rate without peer-to-peer: below this, peer-to-peer does harm
ALIKE = 0.1  # relative difference up to which matrices with and without peer-to-peer are the same
FAR = 1.5  # near memory's rate over far memory's, from which the NUMA node matters
SLOW = 0.5  # of the bound
LARGE = 8 << 20  # bytes of a copy from which it fills a slot
CARRIED = 0.75  # of what iperf measured over TCP: below this, TCP itself is not the limit
STRINGS = ("LOC", "NVL", "PIX", "PXB", "PHB", "SYS")
NICS = ("IB", "AWS Libfabric", "OFI", "IBext", "NCCL RDMA Plugin")
# https://github.com/aws/aws-ofi-nccl/issues/547: P instances from P4d on have it, no others.
OF_EFA = (
    "none is needed on P3dn, G4dn, G5 and G6e, whose EFA has no GPUDirect; from P4d on, "
    "FI_EFA_USE_DEVICE_RDMA=1 and a current plug-in; say what it ran on: --hardware"
)
PAST_THE_ROOT = "; switch ACS and the IOMMU's translation off, so that peers need not pass the root"


def cuda_ipc(evidence: Evidence) -> Finding | None:
    """Open MPI reports errors of CUDA IPC."""
    line = evidence.symptom("cuda_ipc")
    if not line:
        return None
    return Finding(
        name="CUDA IPC of Open MPI fails",
        evidence=line,
        confidence="likely",
        remedy="use UCX (--mca pml ucx, UCX_TLS=cuda_ipc,...); give all ranks of a host the same "
        "CUDA_VISIBLE_DEVICES; in containers --ipc=host --pid=host",
        confirm="cluster bench p2p --ab mca:btl_smcuda_use_cuda_ipc=0,1",
    )


def no_gpudirect(evidence: Evidence) -> Finding | Trouble | None:
    """NCCL copies through the host's memory although the NIC could access the GPU directly."""
    if evidence.hardware is not None and not evidence.hardware.gpudirect:
        return None  # no GPU has it there
    said = evidence.symptom("peermem")
    for log in evidence.nccl:
        if log.copied_sends:  # the module is loaded: it serves the receives
            edge = next(e for e in _between(log) if not e.direct)
            return Trouble(kind="gdr_reads_off", confidence="certain", text=edge.via)
        edges = [e for e in _between(log) if e.via.split("/")[1].startswith(NICS)]
        through = [e for e in edges if not e.direct]
        if through:
            certain = len(through) == len(edges) and not _may_lack(evidence, through)
            return Finding(
                name="no GPUDirect RDMA",
                evidence=f"{len(through)} of {len(edges)} links between hosts copy through the "
                f"host: {through[0].source} -> {through[0].target} via {through[0].via}"
                + (f"; {said}" if said else ""),
                confidence="certain" if certain else "likely",
                remedy=OF_EFA
                if _may_lack(evidence, through)
                else "modprobe nvidia_peermem, or dma-buf and NCCL newer than 2.22.3; a NIC near "
                "each GPU (nvidia-smi topo -m); NCCL_NET_GDR_LEVEL=SYS if it must be a far one",
                confirm="all_reduce_perf with NCCL_NET_GDR_LEVEL=LOC and =SYS",
            )
    return None


def _may_lack(evidence: Evidence, edges: list[NcclEdge]) -> bool:
    """Tell whether links are of EFA on instances that nobody named: most have no GPUDirect."""
    return evidence.hardware is None and all("AWS Libfabric" in edge.via for edge in edges)


def on_sockets(evidence: Evidence) -> Finding | None:
    """NCCL uses TCP between hosts that have something faster."""
    rdma = evidence.hardware is not None and evidence.hardware.rdma
    for log in evidence.nccl:
        sockets = [e for e in _between(log) if e.via.startswith("NET/Socket")]
        if not sockets and not (log.nodes > 1 and set(log.networks) == {"Socket"}):
            continue
        other = [name for name in log.networks if name.startswith(NICS)]
        seen = sockets[0].via if sockets else "Using network Socket"
        also = f"; the log also names {', '.join(other)}" if other else ""
        also += f"; {evidence.hardware.name} has RDMA" if rdma and evidence.hardware else ""
        return Finding(
            name="NCCL uses sockets between hosts",
            evidence=seen + also,
            confidence="certain" if rdma or other else "possible",
            remedy="libibverbs in the image and /dev/infiniband in the container; on EC2 the "
            "aws-ofi-nccl plug-in; NCCL_NET=IB makes it an error instead",
            confirm="NCCL_DEBUG=INFO says Using network IB (or AWS Libfabric); the same test again",
        )
    return None


def slow_sockets(evidence: Evidence) -> Finding | None:
    """NCCL over TCP does not fill the network, and its number of sockets was not set."""
    on_tcp = any(e.via.startswith("NET/Socket") for log in evidence.nccl for e in _between(log))
    if not on_tcp or evidence.setting("NCCL_NSOCKS_PERTHREAD"):
        return None
    measured = _below_streams(evidence)
    seen = measured or _below_bound(evidence)
    if not seen:
        return None
    return Finding(
        name="NCCL over TCP has few sockets",
        evidence=f"bus bandwidth over sockets is {seen}; NCCL_NSOCKS_PERTHREAD is not set",
        confidence="likely" if measured else "possible",
        remedy="NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4, and NCCL_SOCKET_IFNAME for the "
        "network that is meant",
        confirm="all_reduce_perf with and without them; cluster bench iperf --streams 1,8",
    )


def _below_streams(evidence: Evidence) -> str:
    """Compare bus bandwidth with what several connections of iperf carried on the same hosts."""
    several = [s for s in evidence.between_hosts() if count(s, "streams") > 1]
    if not several:
        return ""
    carried = several[0]
    words = f"{count(carried, 'streams')} connections of iperf carry"
    network = Figure(rate=carried.median, source=words)  # as bytes of data: nothing comes off
    hosts = Hardware(name="measured", nic=network, rdma=True)
    shares = [
        s.median / limit.rate
        for s in evidence.series("busbw")
        if (limit := bound(evidence.definitions[s.definition], s.params, hosts))
    ]
    if not shares or max(shares) >= CARRIED:
        return ""
    return f"{max(shares):.0%} of what {words} ({_bytes(carried.median)})"


def _below_bound(evidence: Evidence) -> str:
    """Compare bus bandwidth with what the network of the hosts allows."""
    shares = [s.share for s in evidence.series("busbw") if s.share is not None]
    return f"{max(shares):.0%} of its limit" if shares and max(shares) < SLOW else ""


def level_by_number(evidence: Evidence) -> Finding | None:
    """NCCL_P2P_LEVEL is a number, whose meaning has changed, or it has no effect on transports."""
    level = evidence.setting("NCCL_P2P_LEVEL")
    if level.isdigit():
        return _level(f"NCCL_P2P_LEVEL is {level}: numbers changed their meaning in NCCL 2.4.7")
    vias = {e.transport for log in evidence.nccl for e in log.edges}
    if level == "LOC" and "P2P" in vias:
        return _level("NCCL_P2P_LEVEL is LOC, and GPUs still use P2P")
    return None


def _level(evidence: str) -> Finding:
    return Finding(
        name="NCCL_P2P_LEVEL does not do what it seems",
        evidence=evidence,
        confidence="likely",
        remedy=f"use words: {', '.join(STRINGS)}; NCCL_P2P_DISABLE=1 switches it off",
        confirm="NCCL_DEBUG=INFO: count the channels via P2P, SHM and NET",
    )


def peers_blocked(evidence: Evidence) -> Finding | None:
    """Peer-to-peer makes no difference, or PCIe bridges send it through the host (ACS)."""
    line = evidence.symptom("acs")
    series = evidence.series("p2p_bandwidth", "p2p_bidirectional")
    without = {_pair(s): s.median for s in series if s.params.get("p2p") == "off"}
    gains = [
        s.median / off
        for s in series
        if s.params.get("p2p") == "on" and (off := without.get(_pair(s)))
    ]
    same = gains and all(abs(gain - 1) < ALIKE for gain in gains)
    if not same and not line:
        return None
    board = _without_peers(evidence)
    if board and not same:
        return None  # its peers are reached, with a driver that was patched, or never
    if board:
        return Finding(
            name="these boards have no peer-to-peer",
            evidence=f"{board}; P2P on is {median(gains):.2f} x P2P off over {len(gains)} pair(s)",
            confidence="likely",
            remedy="nothing is broken: the driver of GeForce boards allows none (GeForce RTX 40 "
            "and 50, and 30 without a bridge); data passes the host's memory",
            confirm="nvidia-smi topo -p2p r says CNS or NS for every pair",
        )
    figures = f"P2P on is {median(gains):.2f} x P2P off over {len(gains)} pair(s)" if same else ""
    return Finding(
        name="GPUs do not reach one another directly (ACS, IOMMU or topology)",
        evidence="; ".join(filter(None, (figures, line))),
        confidence="likely" if same and line else "possible",
        remedy="switch ACS off on the PCIe bridges (bare metal), iommu=pt; in VMs ATS; "
        "nvidia-smi topo -p2p r says which pairs may",
        confirm="p2pBandwidthLatencyTest again: P2P=Enabled should be faster, and data right",
    )


def _without_peers(evidence: Evidence) -> str:
    """Name a board that never allows peer-to-peer."""
    models = [model for result in evidence.results for model in result.devices]
    models += [evidence.hardware.gpu] if evidence.hardware else []
    return next((model for model in models if "GeForce" in model), "")


def slow_peers(evidence: Evidence) -> Finding | None:
    """Copies from GPU to GPU are slower with peer-to-peer than through the host's memory."""
    series = evidence.series("p2p_bandwidth", "p2p_bidirectional")
    without = {_pair(s): s for s in series if s.params.get("p2p") == "off"}
    both = [
        (s, without[_pair(s)])
        for s in series
        if s.params.get("p2p") == "on" and _pair(s) in without
    ]
    slow = [(on, off) for on, off in both if on.median < SLOWER * off.median]
    if not slow:
        return None
    on, off = min(slow, key=lambda pair: pair[0].median / pair[1].median)
    bridges = "" if _without_peers(evidence) else PAST_THE_ROOT
    return Finding(
        name="peer-to-peer makes copies slower",
        evidence=f"{len(slow)} of {len(both)} figure(s); GPUs {on.params.get('row')} and "
        f"{on.params.get('column')}: {_bytes(on.median)} with it, {_bytes(off.median)} without",
        confidence="certain",
        remedy="NCCL_P2P_DISABLE=1, or NCCL_P2P_LEVEL=PXB, for GPUs below different bridges"
        + bridges,
        confirm="all_reduce_perf -g 2 with NCCL_P2P_DISABLE=0 and =1",
        is_slow=True,
    )


def _pair(summary: Summary) -> tuple[object, ...]:
    return (summary.metric, summary.params.get("row"), summary.params.get("column"))


def far_memory(evidence: Evidence) -> Finding | None:
    """Copies between a host and a GPU depend on the NUMA node, and no node was chosen."""
    copies = evidence.series("host_copy_bandwidth")
    for test in dict.fromkeys(s.params.get("test") for s in copies):
        mine = [s for s in copies if s.params.get("test") == test]
        for column in dict.fromkeys(s.params.get("column") for s in mine):
            rates = [s.median for s in mine if s.params.get("column") == column]
            if len(rates) > 1 and max(rates) > FAR * min(rates):
                return _numa(
                    f"{test}, GPU {column}: {_bytes(max(rates))} from one NUMA node, "
                    f"{_bytes(min(rates))} from another",
                    sure=True,
                )
    slow = [
        s
        for s in evidence.series("host_to_device", "device_to_host")
        if s.params.get("memory") == "pinned"
        and s.share is not None
        and s.share < SLOW
        and s.params.get("devices") == 1
        and count(s, "size") >= LARGE
    ]
    if slow:
        return _numa(f"{slow[0].metric} reaches {slow[0].share:.0%} of its slot", sure=False)
    return None


def _numa(evidence: str, *, sure: bool) -> Finding:
    return Finding(
        name="a process is far from its GPU (NUMA)",
        evidence=evidence,
        confidence="likely" if sure else "possible",
        remedy="numactl --cpunodebind --membind, or --bind-to numa, with the node that "
        "nvidia-smi topo -m names for the GPU; look at the width of its slot, too: "
        "nvidia-smi -q | grep -A2 'Link Width'",
        confirm="numactl -N 0 -m 0 and -N 1 -m 1 with bandwidthTest or nvbandwidth",
    )


def _bytes(rate: float) -> str:
    return format_value(rate, "B/s")


def _between(log: NcclLog) -> Iterator[NcclEdge]:
    return (edge for edge in log.edges if edge.transport == "NET" and "/" in edge.via)


def unconnected(evidence: Evidence) -> Finding | None:
    """Each process is a job of its own: the program does not use the MPI that started it."""
    alone = [r for r in evidence.results if r.format == "nccl_tests" and r.ranks == 1]
    silent = evidence.series("busbw") and not any(s.median for s in evidence.series("busbw"))
    if not alone or not silent:
        return None
    return Finding(
        name="the ranks are not connected",
        evidence=f"{_tests(alone)} of one rank each, and bus bandwidth is 0",
        confidence="certain" if len(alone) > 1 else "likely",
        remedy="build nccl-tests with MPI=1 and the MPI whose mpirun starts it; or -g for several "
        "GPUs of one process",
        confirm="its head must name as many ranks as were started",
    )


def _tests(results: list[Parsed]) -> str:
    return f"{len(results)} test(s)"


RULES = (
    *(cuda_ipc, no_gpudirect, on_sockets, slow_sockets, level_by_number, peers_blocked),
    slow_peers,
    *(far_memory, unconnected),
)
