"""Outputs of tests between the GPUs of a host, and of collectives, at the full range of sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

GPUS = range(8)
CALLS = 100
STEPS = (  # of bandwidthTest --mode=shmoo: an increment, and the size up to which it is used
    *((1 << 10, 20 << 10), (2 << 10, 50 << 10), (10 << 10, 100 << 10), (100 << 10, 1_126_400)),
    *((1 << 20, 16_855_040), (2 << 20, 33_632_256), (4 << 20, 67_186_688)),
)


def bandwidth_test(chance: random.Random) -> str:
    """Write `bandwidthTest --mode=shmoo`: 81 sizes in each direction."""
    lines = ["[CUDA Bandwidth Test] - Starting...", "Running on...", ""]
    lines += [" Device 0: Tesla V100-SXM2-16GB", " Shmoo Mode", ""]
    for way in ("Host to Device", "Device to Host", "Device to Device"):
        lines += ["." * 81, f" {way} Bandwidth, 1 Device(s)", " PINNED Memory Transfers"]
        lines.append("   Transfer Size (Bytes)\tBandwidth(GB/s)")
        size = 0
        for step, last in STEPS:
            while size < last:
                size += step
                rate = 12 * size / (size + 30_000) * chance.uniform(0.97, 1)
                lines.append(f"   {size}\t\t\t{rate:.1f}")
        lines.append("")
    lines += ["Result = PASS", ""]
    lines.append("NOTE: The CUDA Samples are not meant for performance measurements. Results may ")
    lines[-1] += "vary when GPU Boost is enabled."
    return "\n".join([*lines, ""])


def p2p_matrix(chance: random.Random) -> str:
    """Write p2pBandwidthLatencyTest on eight GPUs."""
    lines = ["[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"]
    lines += [
        f"Device: {gpu}, Tesla V100-SXM2-16GB, pciBusID: {gpu + 16:x}, pciDeviceID: 0, "
        "pciDomainID:0"
        for gpu in GPUS
    ]
    pairs = [(a, b) for a in GPUS for b in GPUS if a != b]
    lines += [f"Device={a} CAN Access Peer Device={b}" for a, b in pairs]
    lines += [
        "",
        "***NOTE: In case a device doesn't have P2P access to other one, it falls back to ",
    ]
    lines[-1] += "normal memcopy procedure."
    lines.append("So you can see lesser Bandwidth (GB/s) and unstable Latency (us) in those cases.")
    lines += ["", "P2P Connectivity Matrix", "     D\\D" + "".join(f"{gpu:6}" for gpu in GPUS)]
    lines += [f"     {gpu}\t" + "     1" * len(GPUS) for gpu in GPUS]
    head = "".join(f"{gpu:6} " for gpu in GPUS)
    ways = (
        *("Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)",),
        "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)",
        *("Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)",),
        "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)",
    )
    for title in ways:
        lines += [title, f"   D\\D{head}", *_square(chance, 740.0, 48.0)]
    for title in (
        "P2P=Disabled Latency Matrix (us)",
        "P2P=Enabled Latency (P2P Writes) Matrix (us)",
    ):
        lines += [title, f"   GPU{head}", *_square(chance, 1.7, 9.0), ""]
        lines += [f"   CPU{head}", *_square(chance, 3.0, 11.0)]
    lines += ["", "NOTE: The CUDA Samples are not meant for performance measurements. Results may "]
    lines[-1] += "vary when GPU Boost is enabled."
    return "\n".join([*lines, ""])


def _square(chance: random.Random, own: float, other: float) -> Iterable[str]:
    for a in GPUS:
        cells = (own if a == b else other for b in GPUS)
        yield f"{a:6} " + " ".join(f"{cell * chance.uniform(0.97, 1):6.2f}" for cell in cells) + " "


def nvbandwidth(chance: random.Random) -> str:
    """Write nvbandwidth on eight GPUs: its matrices between hosts and GPUs, and between GPUs."""
    lines = ["nvbandwidth Version: v0.6", "Built from Git version: v0.6", ""]
    lines += ["CUDA Runtime Version: 12040", "CUDA Driver Version: 12040"]
    lines += ["Driver Version: 550.54.15", "", "node-1"]
    lines += [f"Device {gpu}: NVIDIA H100 80GB HBM3 (00000000:{gpu + 25}:00)" for gpu in GPUS]
    lines.append("")
    ends = ("host_to_device", "device_to_host")
    tests = [
        f"{end}{way}_memcpy_{engine}"
        for engine in ("ce", "sm")
        for end in ends
        for way in ("", "_bidirectional")
    ]
    tests += [
        f"device_to_device_memcpy_{way}_{engine}"
        for engine in ("ce", "sm")
        for way in ("read", "write")
    ]
    tests += ["device_to_device_bidirectional_memcpy_read_ce", "host_device_latency_sm"]
    for test in tests:
        engine = test[-2:].upper()
        lines.append(f"Running {test}.")
        if test.startswith("device_to_device"):
            parts: tuple[str, ...] = ("",)
            if "bidirectional" in test:
                parts = (" Read1", " Read2", " Total")
            for part in parts:
                lines.append(f"memcpy {engine} GPU(row) -> GPU(column){part} bandwidth (GB/s)")
                lines += ["  " + "".join(f"{gpu:10}" for gpu in GPUS), *_pairs(chance), ""]
        else:
            way = (
                "CPU(row) -> GPU(column)" if test.startswith("host") else "CPU(row) <- GPU(column)"
            )
            title = f"memcpy {engine} {way} bandwidth (GB/s)"
            is_time = "latency" in test
            lines.append("memory latency SM CPU(row) <-> GPU(column) (ns)" if is_time else title)
            cells = "".join(
                f"{chance.uniform(50, 56) * (14 if is_time else 1):10.2f}" for _ in GPUS
            )
            lines += ["  " + "".join(f"{gpu:10}" for gpu in GPUS), f" 0{cells}", ""]
        lines += [f"SUM {test} {chance.uniform(400, 440):.2f}", ""]
    lines.append(
        "NOTE: The reported results may not reflect the full capabilities of the platform."
    )
    lines.append(
        "Performance can vary with software drivers, hardware clocks, and system topology."
    )
    return "\n".join([*lines, "", ""])


def _pairs(chance: random.Random) -> Iterable[str]:
    for a in GPUS:
        cells = ("N/A" if a == b else f"{chance.uniform(360, 400):.2f}" for b in GPUS)
        yield f" {a}" + "".join(f"{cell:>10}" for cell in cells)


def rocm_bandwidth(chance: random.Random) -> str:
    """Write rocm-bandwidth-test of two processors and eight GPUs."""
    devices = range(2 + len(GPUS))
    lines = ["", "          RocmBandwidthTest Version: 2.6.0", ""]
    lines += ["          Launch Command is: ./rocm-bandwidth-test (rocm_bandwidth -a)", "", ""]
    lines += [f"          Device: {at},  AMD EPYC 9554 64-Core Processor" for at in (0, 1)]
    lines += [
        f"          Device: {gpu + 2},  AMD Instinct MI300X,  GPU-{chance.randrange(1 << 60):x},  "
        f"{gpu + 5:02}:0.0"
        for gpu in GPUS
    ]
    head = "          D/D       " + "".join(f"{at:<12}" for at in devices)
    lines += ["", "          Inter-Device Access", "", head, ""]
    for at in devices:
        lines += [f"          {at:<10}" + "1           " * len(devices), ""]
    for way in ("Uni", "Bi"):
        lines += ["", f"          {way}directional copy peak bandwidth GB/s", "", head, ""]
        for a in devices:
            is_absent = [max(a, b) < 2 or (way == "Bi" and a == b) for b in devices]  # noqa: PLR2004
            cells = ("N/A" if absent else f"{chance.uniform(28, 60):.3f}" for absent in is_absent)
            lines += [f"          {a:<10}" + "".join(f"{cell:<12}" for cell in cells), ""]
    return "\n".join([*lines, ""])


def rocm_topology(chance: random.Random) -> str:
    """Write `rocm-smi --showtopo` of eight GPUs."""
    head = "       " + "".join(f"{f'GPU{gpu}':<13}" for gpu in GPUS)
    lines = [" ROCm System Management Interface ".center(80, "=")]
    tables = (("Weight", ("15", "52")), ("Hops", ("1", "3")), ("Link Type", ("XGMI", "PCIE")))
    for name, cells in tables:
        lines += [f" {name} between two GPUs ".center(80, "="), head]
        for a in GPUS:
            row = ("0" if a == b else chance.choice(cells) for b in GPUS)
            lines.append(f"{f'GPU{a}':<7}" + "".join(f"{cell:<13}" for cell in row))
        lines.append("")
    lines.append(" Numa Nodes ".center(80, "="))
    for gpu in GPUS:
        for kind in ("Node", "Affinity"):
            lines.append(f"GPU[{gpu}]\t\t: (Topology) Numa {kind}: {gpu // 4}")
    return "\n".join([*lines, " End of ROCm SMI Log ".center(80, "="), ""])


def topology(chance: random.Random) -> str:
    """Write `nvidia-smi topo -m` of eight GPUs and as many NICs."""
    names = [*(f"GPU{at}" for at in GPUS), *(f"NIC{at}" for at in GPUS)]
    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for a in names:
        both = [("NV18",) if a[0] == b[0] == "G" else ("PIX", "NODE", "SYS") for b in names]
        cells = [
            " X " if a == b else chance.choice(kinds) for b, kinds in zip(names, both, strict=True)
        ]
        lines.append("\t".join([a, *cells, *(("0-47,96-143", "0", "N/A") if a[0] == "G" else ())]))
    lines += ["", "Legend:", "", "  X    = Self"]
    lines.append(
        "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA "
    )
    lines[-1] += "nodes (e.g., QPI/UPI)"
    lines.append(
        "  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host "
    )
    lines[-1] += "Bridges within a NUMA node"
    lines.append("  PIX  = Connection traversing at most a single PCIe bridge")
    lines += ["  NV#  = Connection traversing a bonded set of # NVLinks", "", "NIC Legend:", ""]
    return "\n".join([*lines, *(f"  NIC{at}: mlx5_{at}" for at in GPUS), "", ""])


def all_reduce_bench(chance: random.Random) -> str:
    """Write all_reduce_bench.py over 64 ranks, from 32 KiB to 16 GiB."""
    lines = ["Environment:", "- software: torch=2.7.0, cuda=12.8, nccl=(2, 26, 2)"]
    lines.append(
        "- hardware: _CudaDeviceProperties(name='NVIDIA H100 80GB HBM3', major=9, minor=0)"
    )
    lines += ["", "The average bandwidth of all_reduce over 64 ranks (5 warmups / 20 trials):", ""]
    lines += ["| payload |    busbw   |    algbw   |", "| ------: | ---------: | ---------: |"]
    for power in range(15, 35):
        shown = f"{1 << power % 10}{'KMG'[power // 10 - 1]}iB"
        rate = 480 / (1 + 2.0 ** (24 - power)) * chance.uniform(0.97, 1)
        lines.append(f"| {shown:>7} | {rate:6.2f}GBps | {rate / 1.97:6.2f}GBps |")
    lines += ["", "*** Plotting results into plot.png", ""]
    lines.append("Legend: 1KiB = 2**10Bytes, 1MiB = 2**20Bytes, 1GiB = 2**30Bytes")
    return "\n".join(
        [*lines, "        1GBps = 10**9Bytes per second (networking bw spec convention)", ""]
    )


def param_comms(chance: random.Random) -> str:
    """Write comms.py of PARAM from 8 B to 1 GiB."""
    lines = [
        "\tCOMMS-RES                                size (B)  nElementsPerRank   Latency(us):p50"
    ]
    lines[-1] += "         p75         p95         Min         Max    AlgBW(GB/s) BusBW(GB/s)"
    for power in range(3, 31):
        time = (30 + (1 << power) / 2e5) * chance.uniform(1, 1.05)
        rate = (1 << power) / time / 1e3
        lines.append(
            f"\tCOMMS-RES-all_reduce-float32{1 << power:18}{1 << power - 2:18}{time:18.1f}"
            f"{time * 1.01:12.1f}{time * 1.05:12.1f}{time * 0.99:12.1f}{time * 1.06:12.1f}"
            f"{rate:15.3f}{rate * 1.875:12.3f}"
        )
    return "\n".join([*lines, "", ""])


def deepspeed_comm(chance: random.Random) -> str:
    """Write the calls of many steps of DeepSpeed's communication logger, and its summary."""
    lines = []
    for _ in range(CALLS):
        moved, time = chance.choice((678.86, 98.25, 12.5)), chance.uniform(1, 9)
        rate = moved * 8.39 / time
        lines.append(
            "[2026-06-26 01:39:55,722] [INFO] [logging.py:69:log_dist] [Rank 0] rank=0 | comm op: "
            f"{chance.choice(('all_gather', 'reduce_scatter_tensor'))} | time (ms): {time:.2f} | "
            f"msg size: {moved} MB | algbw (Gbps): {rate:.2f}  | busbw (Gbps): {rate * 0.94:.2f}"
        )
    names = ("Message Size", "Count", "Total Latency(ms)", "Avg Latency(ms)", "tput_avg (Gbps)")
    lines.append(
        f"{'Comm. Op':<20}" + "".join(f"{name:<20}" for name in (*names, "busbw_avg (Gbps)"))
    )
    for name in ("broadcast", "all_gather", "reduce_scatter_tensor", "all_reduce"):
        lines.append(name)
        for size in ("0B", "2.0 KB", "48.0 KB", "2.25 MB", "12.5 MB", "98.25 MB", "678.86 MB"):
            time, rate = chance.uniform(1, 9), chance.uniform(300, 1500)
            cells = (size, str(CALLS), f"{time * CALLS:.2f}", f"{time:.2f}", f"{rate:.2f}")
            lines.append(
                " " * 20 + "".join(f"{cell:<20}" for cell in (*cells, f"{rate * 0.94:.2f}"))
            )
    return "\n".join([*lines, ""])


GPU_TESTS: dict[str, Callable[[random.Random], str]] = {
    "bandwidth_test": bandwidth_test,
    "p2p_matrix": p2p_matrix,
    "nvbandwidth": nvbandwidth,
    "rocm_bandwidth": rocm_bandwidth,
    "rocm_topology": rocm_topology,
    "topology": topology,
    "all_reduce_bench": all_reduce_bench,
    "param_comms": param_comms,
    "deepspeed_comm": deepspeed_comm,
}
