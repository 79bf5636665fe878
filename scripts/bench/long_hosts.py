"""Long logs of what a host says of itself: its memory and NUMA nodes, and how it reads its data."""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

NODES = 8  # NUMA nodes
EPOCHS = 100


def dlio_summary(chance: random.Random) -> str:
    """Write the summary of a training of 100 epochs, as DLIO does at its end."""
    shares = [round(chance.uniform(90, 95), 8) for _ in range(EPOCHS)]
    rates = [round(chance.uniform(1460, 1490), 5) for _ in range(EPOCHS)]
    metric = {
        "train_au_percentage": shares,
        "train_au_mean_percentage": statistics.mean(shares),
        "train_au_meet_expectation": "success",
        "train_au_stdev_percentage": statistics.pstdev(shares),
        "train_throughput_samples_per_second": rates,
        "train_throughput_mean_samples_per_second": statistics.mean(rates),
        "train_throughput_stdev_samples_per_second": statistics.pstdev(rates),
        "train_io_mean_MB_per_second": chance.uniform(160, 162),
    }
    return json.dumps({"num_accelerators": 4, "num_hosts": 1, "metric": metric}, indent=4) + "\n"


def mlc_report(chance: random.Random) -> str:
    """Write what Intel's Memory Latency Checker prints on a host with two sockets."""
    lines = ["Intel(R) Memory Latency Checker - v3.9", "Measuring idle latencies (in ns)..."]
    head = ["\t\tNuma node", "Numa node\t     0\t     1\t"]
    lines += head + [
        f"{node:8}\t{chance.uniform(75, 80):6.1f}\t{chance.uniform(140, 145):6.1f}\t"
        for node in range(2)
    ]
    lines += ["", "Measuring Memory Bandwidths between nodes within system "]
    lines += ["Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)"]
    lines += ["Using Read-only traffic type", *head]
    lines += [
        f"{node:8}\t{chance.uniform(5e4, 5.1e4):.1f}\t{chance.uniform(1.1e5, 1.2e5):.1f}\t"
        for node in range(2)
    ]
    lines += ["", "Measuring Loaded Latencies for the system", "Using Read-only traffic type"]
    lines += ["Inject\tLatency\tBandwidth", "Delay\t(ns)\tMB/sec", "=" * 26]
    lines += [
        f" {delay:05}\t{chance.uniform(80, 260):6.2f}\t{chance.uniform(1e4, 2.2e5):9.1f}"
        for delay in (0, 2, 8, 15, 50, 100, 200, 300, 400, 500, 700, 1000, 1500, 2500, 5000, 20_000)
    ]
    return "\n".join([*lines, "", ""])


def numactl_hardware(chance: random.Random) -> str:
    """Write what numactl --hardware prints on a host with eight NUMA nodes."""
    lines = [f"available: {NODES} nodes (0-{NODES - 1})"]
    for node in range(NODES):
        size = chance.randrange(128_000, 129_000)
        cpus = " ".join(str(node * 12 + core) for core in range(12))
        lines += [f"node {node} cpus: {cpus}", f"node {node} size: {size} MB"]
        lines.append(f"node {node} free: {size - chance.randrange(9000)} MB")
    lines += ["node distances:", "node " + "".join(f"{node:4}" for node in range(NODES))]
    for a in range(NODES):
        row = (10 if a == b else 12 if a // 4 == b // 4 else 32 for b in range(NODES))
        lines.append(f"{a:3}: " + "".join(f"{distance:4}" for distance in row))
    return "\n".join([*lines, ""])


HOSTS: dict[str, Callable[[random.Random], str]] = {
    "dlio": dlio_summary,
    "mlc": mlc_report,
    "numactl": numactl_hardware,
}
