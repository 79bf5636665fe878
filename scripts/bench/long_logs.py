"""Long logs as their tools print them: whole tables, minutes of intervals, days of training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from long_gpus import GPU_TESTS
from long_hosts import HOSTS
from long_networks import NETWORKS
from long_programs import PROGRAMS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

NCCL_SIZES = [1 << power for power in range(3, 32)]
MPI_SIZES = [1 << power for power in range(23)]
HALF = "     time   algbw   busbw #wrong"
UNITS = "     (us)  (GB/s)  (GB/s)       "
RANKS = 8
INTERVALS = 60
STEPS = 1000


def nccl_test(chance: random.Random) -> str:
    """Write a test of all_reduce_perf on eight GPUs, from 8 B to 1 GiB."""
    lines = [
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor) validation: 1 graph: 0",
        *("#", "# Using devices"),
    ]
    lines += [
        f"#  Rank {rank:2} Group  0 Pid {chance.randrange(10_000, 99_999):6} on     node-1 device "
        f"{rank:2} [0x{16 + rank:02x}] NVIDIA H100 80GB HBM3"
        for rank in range(RANKS)
    ]
    lines += [
        "#",
        f"#{'out-of-place':>74}{'in-place':>31}",
        "#       size         count      type   redop    root" + 2 * HALF,
        "#        (B)    (elements)                          " + 2 * UNITS,
    ]
    for size in NCCL_SIZES:
        halves = ""
        for _ in range(2):
            time = (30 + size / 2e5) * chance.uniform(1, 1.05)
            rate = size / time / 1e3
            halves += f"  {time:7.5g}  {rate:6.2f}  {rate * 1.75:6.2f}      0"
        lines.append(f"{size:12}  {size // 4:12}     float     sum      -1{halves}")
    lines += ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 87.1234", "#", ""]
    return "\n".join(lines) + "\n"


def osu_tests(chance: random.Random) -> str:
    """Write a test of osu_latency and one of osu_bw, from 1 B to 4 MiB."""
    lines = ["# OSU MPI Latency Test v5.9", "# Size          Latency (us)"]
    times = {size: chance.uniform(1.5, 1.6) + size / 12e3 for size in MPI_SIZES}
    lines += [f"{size:<10}{time:18.2f}" for size, time in times.items()]
    lines += ["", "# OSU MPI Bandwidth Test v5.9", "# Size      Bandwidth (MB/s)"]
    lines += [f"{size:<10}{size / time:18.2f}" for size, time in times.items()]
    return "\n".join([*lines, "", ""])


def imb_tests(chance: random.Random) -> str:
    """Write PingPong and Allreduce of one run of IMB, from 0 B to 4 MiB."""
    rule = "#---------------------------------------------------"
    lines = [rule, "#    Intel(R) MPI Benchmarks 2021.3, MPI-1 part", rule]
    lines += [rule, "# Benchmarking PingPong ", "# #processes = 2 ", rule]
    lines.append("       #bytes #repetitions      t[usec]   Mbytes/sec")
    for size in (0, *MPI_SIZES):
        time = chance.uniform(1.5, 1.6) + size / 12e3
        lines.append(f"{size:13}{1000:13}{time:13.2f}{size / time:13.2f}")
    lines += ["", rule, "# Benchmarking Allreduce ", "# #processes = 16 ", rule]
    lines.append("       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]")
    for size in (0, *MPI_SIZES[2:]):
        time = chance.uniform(1.5, 1.6) + size / 12e3
        lines.append(f"{size:13}{1000:13}{time:13.2f}{time * 1.05:13.2f}{time * 1.02:13.2f}")
    return "\n".join([*lines, "", ""])


def iperf3_test(chance: random.Random) -> str:
    """Write a test of iperf3 of one minute."""
    lines = [
        "Connecting to host 10.0.0.2, port 5201",
        "[  5] local 10.0.0.1 port 51234 connected to 10.0.0.2 port 5201",
        "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd",
    ]
    for second in range(INTERVALS):
        rate = chance.uniform(9, 9.4)
        span = f"{second}.00-{second + 1}.00"
        lines.append(
            f"[  5]{span:>12}   sec  {rate / 8:.2f} GBytes  {rate:.2f} Gbits/sec"
            f"{chance.randrange(9):5}   1.21 MBytes       "
        )
    end = f"[  5]   0.00-{INTERVALS}.00  sec  65.2 GBytes  {chance.uniform(9.1, 9.3):.2f} Gbits/sec"
    lines += ["- " * 25, "[ ID] Interval           Transfer     Bitrate         Retr"]
    lines += [f"{end}   46             sender", f"{end}                  receiver", ""]
    return "\n".join([*lines, "iperf Done.", ""])


def iperf2_test(chance: random.Random) -> str:
    """Write a test of iperf 2 of one minute."""
    rule = "-" * 60
    lines = [
        *(rule, "Client connecting to 10.0.0.2, TCP port 5001"),
        *("TCP window size: 85.0 KByte (default)", rule),
        "[  3] local 10.0.0.1 port 51234 connected with 10.0.0.2 port 5001",
        "[ ID] Interval       Transfer     Bandwidth",
    ]
    for second in range(INTERVALS):
        rate = chance.uniform(9, 9.4)
        lines.append(
            f"[  3] {second:2}.0-{second + 1:2}.0 sec  {rate / 8.59:.2f} GBytes  "
            f"{rate:.2f} Gbits/sec"
        )
    return "\n".join([*lines, "[  3]  0.0-60.0 sec  64.9 GBytes  9.30 Gbits/sec", ""])


def training_steps(chance: random.Random) -> str:
    """Write steps of Megatron, with the time of each."""
    lines = [
        f" [2026-01-02 10:{step // 60 % 60:02}:{step % 60:02}] iteration {step:8}/   500000 | "
        f"consumed samples: {step * 512:12} | elapsed time per iteration (ms): "
        f"{chance.uniform(5000, 5090):.1f} | learning rate: 1.500E-04 | global batch size:   512 | "
        f"lm loss: {chance.uniform(5, 6):.6E} | loss scale: 1.0 |"
        for step in range(STEPS)
    ]
    return "\n".join([*lines, ""])


def other_lines(chance: random.Random) -> str:
    """Write what any program may print, and at its end a failure of the job."""
    kinds = (
        "INFO {} loading shard {} of 4096 from /data/train into pinned memory",
        "step {} loss 2.3{} lr 1.0e-04 reserved 61.2 GB allocated 58.{} GB",
        "saving a checkpoint of step {} took {} s, keeping the last {}",
        "WARNING worker {} has not answered since {} ms",
        "2026-01-02 10:11:12,{} trainer.py:{} epoch {} begins",
    )
    numbers = (chance.randrange(10_000) for _ in range(3 * STEPS))
    lines = [
        chance.choice(kinds).format(*triple)
        for triple in zip(numbers, numbers, numbers, strict=True)
    ]
    return "\n".join([*lines, "srun: error: node-1: task 3: Segmentation fault", ""])


def nccl_debug(chance: random.Random) -> str:
    """Write the lines of NCCL_DEBUG=INFO of 64 ranks, of four communicators."""
    host = chance.randrange(100)
    lines = ["NCCL version 2.20.5+cuda12.4"]
    for comm, rank in ((comm, rank) for comm in range(4) for rank in range(64)):
        near, to = rank % 8, (rank + 1) % 64
        head = f"node-{host + rank // 8:03}:{10_000 + rank}:{20_000 + rank} [{near}] NCCL INFO"
        via = "[send] via NET/IB/0/GDRDMA" if near == 7 else "via P2P/CUMEM/read"  # noqa: PLR2004
        lines += [
            f"{head} Channel {c:02}/{comm} : {rank}[{near}] -> {to}[{to % 8}] {via}"
            for c in range(24)
        ]
        lines += [f"{head} Channel {c:02}/24 :    0   1   2   3   4   5   6   7" for c in range(8)]
        lines.append(
            f"{head} ncclCommInitRank comm 0x5{comm}{rank:03x} rank {rank} nranks 64 "
            f"cudaDev {near} nvmlDev {near} busId 19000 commId 0x{comm} - Init COMPLETE"
        )
    return "\n".join([*lines, ""])


OTHERS = "other programs' lines"
LONG: dict[str, Callable[[random.Random], str]] = {  # of each parser
    "nccl_tests": nccl_test,
    "osu": osu_tests,
    "imb": imb_tests,
    "iperf3": iperf3_test,
    "iperf2": iperf2_test,
    "throughput": training_steps,
    "nccl_log": nccl_debug,
    **NETWORKS,
    **GPU_TESTS,
    **PROGRAMS,
    **HOSTS,
    OTHERS: other_lines,
}
