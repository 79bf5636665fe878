"""What may be wrong with a run: what it is, what shows it, the remedy, and what confirms it."""

from collections.abc import Iterator, Sequence

from cluster.analysis.verdict.evidence import (
    AboveLimit,
    Confidence,
    FailureKind,
    Finding,
    FindingKind,
    FindingWords,
    JobFailure,
    OtherLoad,
    Sign,
    is_slow,
)
from cluster.core.model.results.measurements import Summary
from cluster.core.model.value import Value
from cluster.core.text.units import format_point, format_rate, format_size, format_value
from cluster.reports.words.limits import assumption_words

SHOWN = 4  # ranks that are named
STOLEN = 0.05  # processors, from which it is said
MISTAKES = {
    "bits": "bits were taken for bytes",
    "both_ways": "both directions were counted, or read and write",
    "gib": "GiB were taken for GB",
    "mib": "MiB were taken for MB",
}


class FindingAnswer(Value, frozen=True, kw_only=True):
    """What may be wrong, as JSON has it: a stable code, and words."""

    code: str
    name: str
    evidence: str
    confidence: Confidence
    remedy: str
    confirm: str
    is_slow: bool = False


WORDS: dict[FindingKind | FailureKind, FindingWords] = {
    "shm": FindingWords(
        "shared memory is too small",
        "docker run --shm-size=1g or --ipc=host; in Kubernetes an emptyDir with medium: Memory at "
        "/dev/shm",
        "df -h /dev/shm, inside the container of each rank",
    ),
    "memlock": FindingWords(
        "the limit of lockable memory is too low (memlock)",
        "docker run --ulimit memlock=-1; LimitMEMLOCK=infinity for the service that starts ranks "
        "(slurmd, sshd, containerd), and restart it",
        "ulimit -l, inside the job on each host: it must say unlimited",
    ),
    "interface": FindingWords(
        "there is no usable network interface, or the wrong one is named",
        "name one that every host has and that reaches the others: NCCL_SOCKET_IFNAME, "
        "GLOO_SOCKET_IFNAME, UCX_NET_DEVICES, --mca btl_tcp_if_include CIDR",
        "ip -br addr, on each host; ibv_devinfo for an RDMA device",
    ),
    "names": FindingWords(
        "the name of a host cannot be resolved, or not yet",
        "wait until all workers have addresses before the launcher starts; a headless service with "
        "publishNotReadyAddresses: true; or addresses in the hostfile",
        "getent hosts NAME, on the host that starts ranks",
    ),
    "unreachable": FindingWords(
        "a host does not answer: a firewall, another network, or a process that ended",
        "allow all ports between the hosts (a security group that allows itself); if the answer "
        "was refused, look for the rank that ended first",
        "nc -zv HOST PORT, from the host that could not connect",
    ),
    "device": FindingWords(
        "a rank asks for a GPU that it does not have",
        "as many ranks per host as GPUs that the job may use: the slots of the hostfile, "
        "CUDA_VISIBLE_DEVICES, --gpus-per-node, docker run --gpus all",
        "nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES, inside the job on each host",
    ),
    "fabric_manager": FindingWords(
        "the fabric manager of the NVSwitches does not run",
        "install the version of the driver, and start it: systemctl enable --now "
        "nvidia-fabricmanager",
        "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A3 Fabric",
    ),
    "gid": FindingWords(
        "RDMA cannot reach the other side: its GID, its route or its VLAN",
        "name the GID of RoCE v2 with the network's address: NCCL_IB_GID_INDEX=3, "
        "UCX_IB_GID_INDEX; NCCL_IB_HCA for the ports of one network",
        "show_gids, on each host; ib_write_bw -d DEVICE -x INDEX HOST",
    ),
    "died": FindingWords(
        "a rank ended or was killed, and others lost their connection to it",
        "look at the rank that ended first: its own output, dmesg for the out-of-memory killer, "
        "and the limit of memory of its container",
        "dmesg -T | grep -i -E 'oom|killed|xid', on each host",
    ),
    "build": FindingWords(
        "the program was built for another system: driver, libraries, MPI or GPU",
        "use one image on all hosts, with a CUDA that the driver supports and the MPI whose "
        "launcher starts it; else build it there",
        "nvidia-smi; ldd PROGRAM | grep 'not found', on each host",
    ),
    "memory": FindingWords(
        "a GPU has not enough memory left",
        "smaller messages or batches (nccl-tests: -e), or end what else holds its memory",
        "nvidia-smi --query-compute-apps=pid,used_memory --format=csv, on each host",
    ),
    "hardware": FindingWords(
        "a GPU or its link reports a fault of hardware",
        "take its host out of the job, reset the GPU or the host, and have it replaced if it "
        "comes again; codes of Xid: docs.nvidia.com/deploy/xid-errors",
        "dmesg -T | grep -i xid; nvidia-smi -q -d ECC, on that host",
    ),
    "start": FindingWords(
        "the launcher cannot start ranks on a host",
        "slots=N in the hostfile for N ranks on a host; a key and a known host for ssh; the same "
        "MPI at the same path on all hosts",
        "ssh -o BatchMode=yes HOST mpirun --version, from the host that starts ranks",
    ),
    "timeout": FindingWords(
        "a collective timed out: a rank did not come to it, or its data did not",
        "find the rank: cluster hang --from DUMPS, with the dumps of TORCH_FR_BUFFER_SIZE=2000 "
        "TORCH_NCCL_DUMP_ON_TIMEOUT=1; a longer timeout only waits longer",
        "cluster hang --from DUMPS",
    ),
    "cause": FindingWords(
        "the first line that says what failed",
        "read the lines around it; what follows them is a consequence",
        "the same command on one host, with NCCL_DEBUG=INFO or --mca btl_base_verbose 30",
    ),
    "cuda_ipc": FindingWords(
        "CUDA IPC of Open MPI fails",
        "use UCX (--mca pml ucx, UCX_TLS=cuda_ipc,...); give all ranks of a host the same "
        "CUDA_VISIBLE_DEVICES; in containers --ipc=host --pid=host",
        "cluster bench p2p --ab mca:btl_smcuda_use_cuda_ipc=0,1",
    ),
    "no_gpudirect": FindingWords(
        "no GPUDirect RDMA",
        "modprobe nvidia_peermem, or dma-buf and NCCL newer than 2.22.3; a NIC near each GPU "
        "(nvidia-smi topo -m); NCCL_NET_GDR_LEVEL=SYS if it must be a far one",
        "all_reduce_perf with NCCL_NET_GDR_LEVEL=LOC and =SYS",
    ),
    # https://github.com/aws/aws-ofi-nccl/issues/547: P instances from P4d on have it, no others.
    "efa_without_gpudirect": FindingWords(
        "no GPUDirect RDMA",
        "none is needed on P3dn, G4dn, G5 and G6e, whose EFA has no GPUDirect; from P4d on, "
        "FI_EFA_USE_DEVICE_RDMA=1 and a current plug-in; say what it ran on: --hardware",
        "all_reduce_perf with NCCL_NET_GDR_LEVEL=LOC and =SYS",
    ),
    "gdr_reads_off": FindingWords(
        "GPUDirect RDMA only receives: reads are off",
        "NCCL_NET_GDR_READ=1 (NCCL leaves reads off on some systems without NVLink); "
        "nvidia_peermem is loaded, as receives use it",
        "all_reduce_perf with NCCL_NET_GDR_READ=0 and =1",
    ),
    "nccl_on_sockets": FindingWords(
        "NCCL uses sockets between hosts",
        "libibverbs in the image and /dev/infiniband in the container; on EC2 the aws-ofi-nccl "
        "plug-in, at Google that of the type; NCCL_NET=IB makes it an error instead",
        "NCCL_DEBUG=INFO says Using network IB, AWS Libfabric, gIB, FasTrak (a3-megagpu) or "
        "GPUDirectTCPX (a3-highgpu); the same test again",
    ),
    "few_sockets": FindingWords(
        "NCCL over TCP has few sockets",
        "NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4, and NCCL_SOCKET_IFNAME for the network "
        "that is meant",
        "all_reduce_perf with and without them; cluster bench iperf --streams 1,8",
    ),
    "level_by_number": FindingWords(
        "NCCL_P2P_LEVEL does not do what it seems",
        "use words: LOC, NVL, PIX, PXB, PHB, SYS; NCCL_P2P_DISABLE=1 switches it off",
        "NCCL_DEBUG=INFO: count the channels via P2P, SHM and NET",
    ),
    "no_peers": FindingWords(
        "these boards have no peer-to-peer",
        "nothing is broken: the driver of GeForce boards allows none (GeForce RTX 40 and 50, and "
        "30 without a bridge); data passes the host's memory",
        "nvidia-smi topo -p2p r says CNS or NS for every pair",
    ),
    "peers_blocked": FindingWords(
        "GPUs do not reach one another directly (ACS, IOMMU or topology)",
        "switch ACS off on the PCIe bridges (bare metal), iommu=pt; in VMs ATS; nvidia-smi topo "
        "-p2p r says which pairs may",
        "p2pBandwidthLatencyTest again: P2P=Enabled should be faster, and data right",
    ),
    "slow_peers": FindingWords(
        "peer-to-peer makes copies slower",
        "NCCL_P2P_DISABLE=1, or NCCL_P2P_LEVEL=PXB, for GPUs below different bridges",
        "all_reduce_perf -g 2 with NCCL_P2P_DISABLE=0 and =1",
    ),
    "far_memory": FindingWords(
        "a process is far from its GPU (NUMA)",
        "numactl --cpunodebind --membind, or --bind-to numa, with the node that nvidia-smi topo -m "
        "names for the GPU; look at the width of its slot, too: nvidia-smi -q | grep -A2 'Link "
        "Width'",
        "numactl -N 0 -m 0 and -N 1 -m 1 with bandwidthTest or nvbandwidth",
    ),
    "unconnected": FindingWords(
        "the ranks are not connected",
        "build nccl-tests with MPI=1 and the MPI whose mpirun starts it; or -g for several GPUs of "
        "one process",
        "its head must name as many ranks as were started",
    ),
    "oversubscribed": FindingWords(
        "more ranks than cores",
        "start fewer ranks per host, or allow more cores; --mca mpi_yield_when_idle 0",
        "cluster bench p2p --metrics latency with ranks for half of the cores",
    ),
    "cma_blocked": FindingWords(
        "single-copy between ranks is blocked (CMA)",
        "sysctl -w kernel.yama.ptrace_scope=0, or in a container --cap-add SYS_PTRACE; else --mca "
        "btl_vader_single_copy_mechanism none",
        "cluster bench p2p on one host: bandwidth of large messages should double",
    ),
    "not_cuda_aware": FindingWords(
        "this MPI is not CUDA-aware",
        "build Open MPI --with-cuda or over a UCX that has CUDA (ucx_info -b | grep CUDA)",
        "osu_bw D D against osu_bw H H",
    ),
    "fork": FindingWords(
        "ranks fork beside registered memory",
        "RDMAV_FORK_SAFE=1 only if ranks fork; else start no processes from them",
        "the same run without the fork",
    ),
    "hyper_threads": FindingWords(
        "ranks may share cores",
        "--bind-to core, --hint=nomultithread, or one thread per core (CpuOptions on EC2)",
        "the same run with half as many ranks, bound to cores",
    ),
    "shared_core": FindingWords(
        "ranks share a core",
        "a core for each rank: mpirun --map-by core --bind-to core, srun --hint=nomultithread "
        "--cpu-bind=cores; no taskset or cpuset around ranks; one thread per core (CpuOptions on "
        "EC2)",
        "the same run with mpirun --report-bindings: each rank on a core of its own",
    ),
    "burst_credits": FindingWords(
        "it got slower while it ran",
        "run longer and look at the series",
        "the same run of ten minutes, and again after an hour of rest",
    ),
    "waiting": FindingWords(
        "imbalance seen as network",
        "balance the work or the input of ranks; with Horovod, a longer cycle time and tensor "
        "fusion; fewer ranks than cores",
        "COLLECTIVE_BARRIER=yes of mpitrace: it times the waiting by itself",
    ),
    "slow_input": FindingWords(
        "slow input, not the network",
        "cache or prefetch the data; look at how busy the GPU is",
        "the same with synthetic data on one GPU",
    ),
    "one_flow": FindingWords(
        "one TCP connection is capped",
        "use several: more ranks or sockets, NCCL_NSOCKS_PERTHREAD; on EC2 a placement group, ENA "
        "Express or EFA; on a bond, a hash over ports (layer3+4)",
        "cluster bench iperf --streams 1,8",
    ),
    "one_core": FindingWords(
        "one TCP stream is limited by a core",
        "use several: iperf3 -P 8 (iperf3 3.16 or newer, else several processes with ports of "
        "their own), more sockets of NCCL, more ranks; or RDMA",
        "iperf3 -c HOST -P 8, or cluster bench iperf --streams 1,8",
    ),
    "links_without_effect": FindingWords(
        "btl_tcp_links is not honoured",
        "another number of links or another Open MPI (its pull request 4247), UCX, or more ranks "
        "per host",
        "ss -tn | grep -c ESTAB while it runs; cluster bench p2p --ab mca:btl_tcp_links=1,4",
    ),
    "directions_wait": FindingWords(
        "the two directions wait for each other",
        "let Open MPI send without asking: --mca btl_tcp_eager_limit=BYTES above the size (it "
        "costs memory); or several connections: --mca btl_tcp_links=2; or UCX",
        "cluster bench collectives --operations allgather --sizes 4MB "
        "--ab mca:btl_tcp_eager_limit=65536,33554432",
    ),
    "wrong_interface": FindingWords(
        "the wrong interface is used",
        "name the network: --mca btl_tcp_if_include CIDR (never exclude as well), "
        "NCCL_SOCKET_IFNAME, UCX_NET_DEVICES",
        "compare /proc/net/dev before and after a run",
    ),
    "one_of_several": FindingWords(
        "one network interface of several is used",
        "one rank near each interface, as osu_mbw_mr or NCCL do; a pair of ranks is expected to "
        "use one",
        "osu_mbw_mr with as many pairs as interfaces",
    ),
    "shared_subnet": FindingWords(
        "a private bridge is taken for the network",
        "--mca btl_tcp_if_include CIDR --mca oob_tcp_if_include CIDR, and no exclude list; "
        "NCCL_SOCKET_IFNAME=eth0",
        "the same run with these",
    ),
    "nothing_received": FindingWords(
        "nothing arrives after the first packets",
        "the path drops packets as large as the MTU, and says nothing: set the MTU that it carries "
        "on both hosts, or allow ICMP (fragmentation needed); else a firewall drops the data",
        "ping -M do -s 1472 HOST, and smaller sizes until it answers",
    ),
    "datagrams_lost": FindingWords(
        "datagrams are lost",
        "send slower (iperf3 -u -b RATE) until it stops: above that, the path, the receiver's core "
        "or its socket buffer (-w) is the limit",
        "nstat -az UdpRcvbufErrors, on the receiver: if it rises, the network is not the cause",
    ),
    "bond_reorders": FindingWords(
        "a bond sends one connection over several links, so its packets arrive out of order",
        "mode 802.3ad (4) with xmit_hash_policy=layer3+4, and several connections",
        "nstat -az TcpExtTCPSACKReorder, before and after a run",
    ),
    "firmware_differs": FindingWords(
        "NICs of one model have different firmware",
        "the same version on all: mlxfwmanager -u, or the vendor's tool, and a restart",
        "ibv_devinfo | grep fw_ver, or ethtool -i INTERFACE, on each host",
    ),
    "overlay_checksums": FindingWords(
        "checksums of an overlay's packets are left to the NIC",
        "ethtool -K VXLAN-INTERFACE tx-checksum-ip-generic off, on each host",
        "the same transfer again; nstat -az TcpInCsumErrors, on the receiver",
    ),
    "socket_buffers": FindingWords(
        "socket buffers are small",
        "sysctl -w net.core.rmem_max=16777216 net.core.wmem_max=16777216, and leave btl_tcp_sndbuf "
        "and rcvbuf 0",
        "cluster bench p2p --ab mca:btl_tcp_sndbuf=0,4194304",
    ),
    "mtu_mismatch": FindingWords(
        "MTUs do not agree",
        "set one MTU on all interfaces of the network; outside of a VPC it is 1500",
        "ping -M do -s 8972 between each pair; cluster bench iperf",
    ),
    "bbr_without_fq": FindingWords(
        "BBR without fq",
        "sysctl -w net.core.default_qdisc=fq, or net.ipv4.tcp_congestion_control=cubic",
        "iperf3 -C cubic and iperf3 -C bbr, one after the other and back",
    ),
    "retransmissions": FindingWords(
        "the path loses packets",
        "look for a policer, a full queue or a bad cable: ethtool -S, tc -s qdisc",
        "iperf3 -u -b just below the rate, and its loss",
    ),
    "old_iperf": FindingWords(
        "iperf3 has one thread",
        "take iperf3 3.16 or later, or start several of them",
        "the same with iperf3 3.16: iperf3 -P 8",
    ),
    "overlay": FindingWords(
        "an overlay network wraps packets",
        "use the hosts' own network (hostNetwork: true), or routes without encapsulation",
        "cluster bench iperf on the hosts' addresses and on the overlay's",
    ),
}


def finding_words(sign: Sign) -> FindingAnswer:
    match sign:
        case AboveLimit():
            return _above_limit(sign)
        case OtherLoad():
            return FindingAnswer(
                code="other_load",
                name="a busy host",
                evidence=f"{sign.host}: {load_words(sign)}",
                confidence=sign.confidence,
                remedy="wait until they end; against other virtual machines, a dedicated host",
                confirm="the same run when quiet",
            )
        case JobFailure():
            evidence = f"{f'line {sign.line}: ' if sign.line else ''}{sign.text}"
        case Finding():
            evidence = _evidence(sign)
    words = (isinstance(sign, Finding) and sign.words) or WORDS[sign.kind]
    return FindingAnswer(
        code=sign.kind,
        name=words.name,
        evidence=evidence,
        confidence=sign.confidence,
        remedy="; ".join((words.remedy, *_more_remedies(sign))),
        confirm=words.confirm,
        is_slow=is_slow(sign),
    )


def _more_remedies(sign: Finding | JobFailure) -> Iterator[str]:
    match sign:
        case Finding(kind="slow_peers", name=""):
            yield (
                "switch ACS and the IOMMU's translation off, so that peers need not pass the root"
            )
        case Finding(kind="burst_credits"):
            if sign.name:
                yield "use an instance type without credits"
            if sign.count:
                yield "look at the clocks: nvidia-smi -q -d PERFORMANCE"


def _evidence(finding: Finding) -> str:
    """Word what shows a problem; a line of a log speaks for itself."""
    kinds = (_nccl_evidence, _copy_evidence, _host_evidence, _flow_evidence, _network_evidence)
    return next(filter(None, (words(finding) for words in kinds)), finding.text)


def _nccl_evidence(finding: Finding) -> str:
    f, other, share = finding, finding.other, finding.share or 0.0
    match f.kind:
        case "no_gpudirect" | "efa_without_gpudirect" if f.edge:
            links = f"{f.count} of {f.other_count} links between hosts copy through the host"
            edge = f"{f.edge.source} -> {f.edge.target} via {f.edge.via}"
            return _join(f"{links}: {edge}", f.text)
        case "gdr_reads_off" if f.edge:
            return f"receives between hosts have GDRDMA, and sends do not: {f.edge.via}"
        case "nccl_on_sockets":
            other_names = f"the log also names {', '.join(f.names)}" if f.names else ""
            fast = f"{f.name} has a faster network" if f.name else ""
            return _join(f.edge.via if f.edge else "Using network Socket", other_names, fast)
        case "few_sockets":
            limit = "its limit"
            if other:
                streams = other.params["streams"]
                limit = f"what {streams} connections of iperf carry ({_value(other)})"
            rate = f"bus bandwidth over sockets is {share:.0%} of {limit}"
            return f"{rate}; NCCL_NSOCKS_PERTHREAD is not set"
        case "level_by_number" if f.name.isdigit():
            return f"NCCL_P2P_LEVEL is {f.name}: numbers changed their meaning in NCCL 2.4.7"
        case "level_by_number":
            return f"NCCL_P2P_LEVEL is {f.name}, and GPUs still use P2P"
        case "unconnected":
            return f"{f.count} test(s) of one rank each, and bus bandwidth is 0"
    return ""


def _copy_evidence(finding: Finding) -> str:
    f, series, other, share = finding, finding.series, finding.other, finding.share or 0.0
    match f.kind:
        case "no_peers" | "peers_blocked":
            gain = f"P2P on is {share:.2f} x P2P off over {f.count} pair(s)"
            line = "" if f.name else f.text
            return _join(f.name, gain if f.share is not None else "", line)
        case "slow_peers" if series and other:
            pair = f"GPUs {series.params.get('row')} and {series.params.get('column')}"
            rates = f"{_value(series)} with it, {_value(other)} without"
            return f"{f.count} of {f.other_count} figure(s); {pair}: {rates}"
        case "far_memory" if series and other:
            copy = f"{series.params.get('test')}, GPU {series.params.get('column')}"
            rates = f"{_value(series)} from one NUMA node, {_value(other)} from another"
            return f"{copy}: {rates}"
        case "far_memory" if series:
            return f"{series.metric} reaches {series.share or 0.0:.0%} of its slot"
    return ""


def _host_evidence(finding: Finding) -> str:
    f, series, other, share = finding, finding.series, finding.other, finding.share or 0.0
    match f.kind:
        case "oversubscribed":
            ranks = f"{f.count} ranks on {f.other_count} core(s) of {f.name}"
            return _join(f.text or ranks, f"latency is {_value(series)}" if series else "")
        case "cma_blocked":
            return _join(f.text, f"kernel.yama.ptrace_scope is {f.name}" if f.name else "")
        case "hyper_threads" if series and series.shape:
            tail = f"the slowest hundredth of {series.metric} is {series.shape.tail:.1f} x slower"
            return f"{f.count} threads per core, and {tail} than its median"
        case "shared_core":
            ranks = ", ".join(
                f"rank {rank.rank} on {rank.host} is bound to processor(s) "
                f"{','.join(map(str, rank.processors))}"
                for rank in f.ranks[:SHOWN]
            )
            cores = f"{len(f.ranks)} ranks have {f.count} core(s), and {f.other_count} have none"
            return f"{ranks}: {cores}"
        case "burst_credits":
            drift = series.shape.drift if series and series.shape else None
            fell = f"{series.metric} drifts {drift:+.0%}" if series and drift is not None else ""
            return _join(fell, f.text, f"{f.name} has burst credits" if f.name else "", sep=", ")
        case "waiting":
            calls = f"{f.count} allreduces of 64 B or less took {f.figure:.3g} s"
            mean = f"{format_value(f.figure / f.count, 's')} each, {share:.0%} of its time in MPI"
            return f"rank {f.name}: {calls}, {mean}"
        case "slow_input" if series and other:
            return f"{series.median:g} of {other.median:g} {other.unit} expected"
    return ""


def _flow_evidence(finding: Finding) -> str:
    f, series, other, share = finding, finding.series, finding.other, finding.share or 0.0
    match f.kind:
        case "one_flow" if series and other:
            alone = f"{_rate(series)} with one connection"
            return f"{alone}, {_rate(other)} with {other.params['streams']}"
        case "one_flow" if series:
            flow = f"{_rate(series)} is what one connection of {format_rate(f.rate)} brings"
            return f"{flow}, and the network has {format_rate(f.network)}"
        case "one_core" if series:
            network = f"{share:.0%} of the network's {format_rate(f.network)}"
            return f"{_rate(series)} with one connection is {network}"
        case "links_without_effect":
            ranks = f"ranks {' and '.join(f.names)} have {f.count} TCP connection(s)"
            rate = "" if f.confidence == "certain" else "the rate is that of one connection"
            detail = _join(ranks if f.names else "", rate, sep=" and ")
            return f"btl_tcp_links is {f.name}, and {detail}"
        case "directions_wait" if series:
            size = format_size(int(series.params["size"]))
            figure = f"{series.metric} of {size} reaches {series.share or 0.0:.0%} of its limit"
            return f"{figure}, and one direction alone {share:.0%}"
        case "wrong_interface" if series:
            slow = f"{_rate(series)} is what the {format_rate(f.rate)} interface brings"
            return f"{slow}, and the hosts have one of {format_rate(f.network)}"
        case "one_of_several" if series:
            part = f"{series.median / f.rate:.0%} of one interface ({format_rate(f.rate)})"
            return f"{_rate(series)} is {part}; a host has {f.count}"
    return ""


def _network_evidence(finding: Finding) -> str:
    f, series = finding, finding.series
    match f.kind:
        case "shared_subnet":
            detail = f"a rank tried to connect to {f.name}"
            detail = detail if f.count else f"{f.name} is on several hosts"
            return f"{detail}: docker0, virbr0 and /etc/hosts give the same addresses everywhere"
        case "firmware_differs":
            return " and ".join(f.names)
        case "nothing_received":
            return f"the sender counts {f.figure:.0f} B/s, and the receiver 0"
        case "datagrams_lost":
            return f"{f.figure:.3g} % of them did not arrive"
        case "socket_buffers" if series:
            slow = f"{_rate(series)} is {series.share or 0.0:.0%} of its limit"
            return f"the kernel allows {f.count} B, and {slow}"
        case "mtu_mismatch" if not f.text:
            return f"the hosts' common network has MTUs of {' and '.join(f.names)}"
        case "bbr_without_fq":
            slow = f"and {_rate(series)}" if series else f"with the queue {', '.join(f.names)}"
            return f"congestion control is bbr, {slow}"
        case "retransmissions" if series:
            return f"{f.figure:.0f} segments were sent again, at {_rate(series)}"
        case "old_iperf" if series:
            busy = f", {f.figure:.0f} % busy" if f.figure else ""
            load = f"version {f.name} serves {series.params['streams']} streams"
            return f"{load} with one thread{busy}: {_rate(series)}"
        case "overlay":
            names = [f"{i.name} (MTU {i.mtu})" for i in f.interfaces]
            mss = f"segments of {f.count} B tell of an MTU of {f.other_count}" if f.count else ""
            return _join(*names, mss, f.text, sep=", ")
    return ""


def _join(*parts: str, sep: str = "; ") -> str:
    return sep.join(filter(None, parts))


def _value(series: Summary) -> str:
    return format_value(series.median, series.unit)


def _rate(series: Summary) -> str:
    return f"{series.metric} of {_value(series)}"


def load_words(load: OtherLoad) -> str:
    steal = f", and other virtual machines {load.stolen:.1f}" if load.stolen >= STOLEN else ""
    return f"other processes used {load.used:.1f} of {load.processors} processors{steal}"


def _above_limit(sign: AboveLimit) -> FindingAnswer:
    summary, share = sign.summary, sign.summary.share or 0.0
    point = format_point(summary.params)
    subject = f"{summary.metric}{f' ({point})' if point else ''} is {share:.1%} of"
    bound = format_value(summary.bound or 0.0, summary.unit)
    if summary.limit is None or summary.limit.assumption is None:
        guess = f"; {MISTAKES[sign.mistake]}?" if sign.mistake else ""
        if sign.interfaces:
            guess = f"; the log names {sign.interfaces} interfaces: say nics={sign.interfaces}"
        return FindingAnswer(
            code="above_limit",
            name="faster than possible",
            evidence=f"{subject} its limit, {bound}{guess}",
            confidence=sign.confidence,
            remedy="do not believe it: look at its unit and direction, and at the hardware that "
            "was named (--hardware); switches that sum (SHARP) and ENA Express raise limits",
            confirm="the same with another tool on the same path",
        )
    assumption = assumption_words(summary.limit.assumption)
    return FindingAnswer(
        code="above_assumption",
        name="faster than possible, or not as it was assumed",
        evidence=f"{subject} {bound}, its limit only if {assumption}",
        confidence=sign.confidence,
        remedy="find out whether that holds, and say what it ran on: --hardware NAME, or words "
        "such as nvlink=300GB/s,nic=100gbit,nics=4, and --hosts",
        confirm="cluster judge again, with what was found out",
    )


def finding_lines(signs: Sequence[Sign]) -> Iterator[str]:
    """Return findings as text: lines; none if nothing was found."""
    if signs:
        yield "What to look at:"
    for number, sign in enumerate(map(finding_words, signs), 1):
        yield f"  {number}. {sign.name} ({sign.confidence}): {sign.evidence}"
        yield f"     Remedy: {sign.remedy}"
        yield f"     Confirm: {sign.confirm}"
