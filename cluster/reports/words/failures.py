"""Why a job failed or is slow: what it is, what to change, and the command that confirms it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cluster.analysis.verdict.evidence import FailureKind, TroubleKind


class FailureWords(NamedTuple):
    """The name of a kind of failure, its remedy, and what confirms it."""

    name: str
    remedy: str
    confirm: str


WORDS: dict[FailureKind, FailureWords] = {
    "shm": FailureWords(
        "shared memory is too small",
        "docker run --shm-size=1g or --ipc=host; in Kubernetes an emptyDir with medium: Memory at "
        "/dev/shm",
        "df -h /dev/shm, inside the container of each rank",
    ),
    "memlock": FailureWords(
        "the limit of lockable memory is too low (memlock)",
        "docker run --ulimit memlock=-1; LimitMEMLOCK=infinity for the service that starts ranks "
        "(slurmd, sshd, containerd), and restart it",
        "ulimit -l, inside the job on each host: it must say unlimited",
    ),
    "interface": FailureWords(
        "there is no usable network interface, or the wrong one is named",
        "name one that every host has and that reaches the others: NCCL_SOCKET_IFNAME, "
        "GLOO_SOCKET_IFNAME, UCX_NET_DEVICES, --mca btl_tcp_if_include CIDR",
        "ip -br addr, on each host; ibv_devinfo for an RDMA device",
    ),
    "names": FailureWords(
        "the name of a host cannot be resolved, or not yet",
        "wait until all workers have addresses before the launcher starts; a headless service with "
        "publishNotReadyAddresses: true; or addresses in the hostfile",
        "getent hosts NAME, on the host that starts ranks",
    ),
    "unreachable": FailureWords(
        "a host does not answer: a firewall, another network, or a process that ended",
        "allow all ports between the hosts (a security group that allows itself); if the answer "
        "was refused, look for the rank that ended first",
        "nc -zv HOST PORT, from the host that could not connect",
    ),
    "device": FailureWords(
        "a rank asks for a GPU that it does not have",
        "as many ranks per host as GPUs that the job may use: the slots of the hostfile, "
        "CUDA_VISIBLE_DEVICES, --gpus-per-node, docker run --gpus all",
        "nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES, inside the job on each host",
    ),
    "fabric_manager": FailureWords(
        "the fabric manager of the NVSwitches does not run",
        "install the version of the driver, and start it: systemctl enable --now "
        "nvidia-fabricmanager",
        "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A3 Fabric",
    ),
    "gid": FailureWords(
        "RDMA cannot reach the other side: its GID, its route or its VLAN",
        "name the GID of RoCE v2 with the network's address: NCCL_IB_GID_INDEX=3, "
        "UCX_IB_GID_INDEX; NCCL_IB_HCA for the ports of one network",
        "show_gids, on each host; ib_write_bw -d DEVICE -x INDEX HOST",
    ),
    "died": FailureWords(
        "another rank ended, and this one lost its connection",
        "look at the rank that ended first: its own output, dmesg for the out-of-memory killer, "
        "and the limit of memory of its container",
        "dmesg -T | grep -i -E 'oom|killed|xid', on each host",
    ),
    "build": FailureWords(
        "the program was built for another system: driver, libraries, MPI or GPU",
        "use one image on all hosts, with a CUDA that the driver supports and the MPI whose "
        "launcher starts it; else build it there",
        "nvidia-smi; ldd PROGRAM | grep 'not found', on each host",
    ),
    "cause": FailureWords(
        "the first line that says what failed",
        "read the lines around it; what follows them is a consequence",
        "the same command on one host, with NCCL_DEBUG=INFO or --mca btl_base_verbose 30",
    ),
}


class TroubleWords(NamedTuple):
    """The words of a kind of trouble; `evidence` has places for the text and the figure."""

    name: str
    evidence: str
    remedy: str
    confirm: str


TROUBLES: dict[TroubleKind, TroubleWords] = {
    "nothing_received": TroubleWords(
        "nothing arrives after the first packets",
        "the sender counts {figure:.0f} B/s, and the receiver 0",
        "the path drops packets as large as the MTU, and says nothing: set the MTU that it carries "
        "on both hosts, or allow ICMP (fragmentation needed); else a firewall drops the data",
        "ping -M do -s 1472 HOST, and smaller sizes until it answers",
    ),
    "gdr_reads_off": TroubleWords(
        "GPUDirect RDMA only receives: reads are off",
        "receives between hosts have GDRDMA, and sends do not: {text}",
        "NCCL_NET_GDR_READ=1 (NCCL leaves reads off on some systems without NVLink); "
        "nvidia_peermem is loaded, as receives use it",
        "all_reduce_perf with NCCL_NET_GDR_READ=0 and =1",
    ),
    "datagrams_lost": TroubleWords(
        "datagrams are lost",
        "{figure:.3g} % of them did not arrive",
        "send slower (iperf3 -u -b RATE) until it stops: above that, the path, the receiver's core "
        "or its socket buffer (-w) is the limit",
        "nstat -az UdpRcvbufErrors, on the receiver: if it rises, the network is not the cause",
    ),
    "bond_reorders": TroubleWords(
        "a bond sends one connection over several links, so its packets arrive out of order",
        "{text}",
        "mode 802.3ad (4) with xmit_hash_policy=layer3+4, and several connections",
        "nstat -az TcpExtTCPSACKReorder, before and after a run",
    ),
    "overlay_checksums": TroubleWords(
        "checksums of an overlay's packets are left to the NIC",
        "{text}",
        "ethtool -K VXLAN-INTERFACE tx-checksum-ip-generic off, on each host",
        "the same transfer again; nstat -az TcpInCsumErrors, on the receiver",
    ),
}
