"""Outputs of tests of networks, each from its first line to its last, at all of its sizes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

POWERS = [1 << power for power in range(1, 24)]  # what `-a` of perftest tests: 2 B to 8 MiB
SECONDS = 10
TRANSFERS = 100
SEGMENTS = range(96, 1461, 64)  # bytes: the default of kubernetes/perf-tests
PATHS = (
    *("Same VM using Pod IP", "Same VM using Virtual IP", "Remote VM using Pod IP"),
    *("Remote VM using Virtual IP", "Hairpin Pod to own Virtual IP"),
)


def perftest(chance: random.Random) -> str:
    """Write `ib_write_bw -a`, and `ib_send_lat -a`, as version 6 does over RoCE."""
    rule = "-" * 87
    about = [
        *(" Dual-port       : OFF\t\tDevice         : mlx5_0", " Number of qps   : 1\t\t"),
        *(" Connection type : RC\t\tUsing SRQ      : OFF", " PCIe relax order: ON"),
        *(" ibv_wr* API     : ON", " TX depth        : 128", " CQ Moderation   : 100"),
        *(" Mtu             : 4096[B]", " Link type       : Ethernet", " GID index       : 3"),
        *(" Max inline data : 0[B]", " rdma_cm QPs\t : OFF", " Data ex. method : Ethernet", rule),
    ]
    about[1] += "Transport type : IB"
    for side in ("local", "remote"):
        about += [
            (
                f" {side} address: LID 0000 QPN 0x{chance.randrange(4096):04x} "
                f"PSN 0x{chance.randrange(1 << 24):06x} RKey 0x{chance.randrange(1 << 24):06x} "
                f"VAddr 0x{chance.randrange(1 << 46):012x}"
            ),
            " GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:255:255:05",
        ]
    lines = [rule, "                    RDMA_Write BW Test", *about, rule]
    head = "    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]"
    lines.append(f" #bytes     #iterations{head}")
    for size in POWERS:
        rate = min(11_700, size * 4.5) * chance.uniform(0.98, 1)
        messages = rate * (1 << 20) / size / 1e6
        lines.append(
            f" {size:<10} 5000           {rate * 1.01:10.2f}         {rate:10.2f} \t\t   "
            f"{messages:.6f}"
        )
    lines += [rule, rule, "                    Send Latency Test", *about, rule]
    lines.append(
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
        "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] "
    )
    for size in POWERS:
        time = (1 + size / 12e3) * chance.uniform(1, 1.05)
        lines.append(
            f" {size:<7} 1000          {time * 0.96:.2f}           {time * 4:.2f}         "
            f"{time:.2f}     \t       {time * 1.01:.2f}        \t{time / 10:.2f}   \t\t"
            f"{time * 1.2:.2f}    \t\t{time * 3:.2f}   "
        )
    return "\n".join([*lines, rule, ""])


def ucx_perftest(chance: random.Random) -> str:
    """Write tag_lat and tag_bw of ucx_perftest, with a row per second."""
    lines, rule = [], f"+{'-' * 106}+"
    columns = "+--------------+--------------+----------+---------+---------+----------+----------+"
    columns += "-----------+-----------+"
    size = chance.choice(POWERS)
    for kind, name in (("latency", "tag match latency"), ("overhead", "tag match bandwidth")):
        about = (
            *("API:          protocol layer", f"Test:         {name}"),
            *("Data layout:  (automatic)", "Send memory:  host", "Recv memory:  host"),
            f"Message size: {size}",
        )
        group = "+--------------+--------------+------------------------------+"
        group += "---------------------+-----------------------+"
        lines += [rule, *(f"| {line:<105}|" for line in about), rule, group]
        lines.append(
            f"|              |              |       {kind:>8} (usec)        |   bandwidth (MB/s)  |"
            "  message rate (msg/s) |"
        )
        lines.append(columns)
        lines.append(
            "|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  "
            "average  |  overall  |"
        )
        lines.append(columns)
        for second in range(1, SECONDS + 1):
            time = chance.uniform(1.4, 1.6)
            rate = int(1e6 / time)
            bandwidth = rate * size / (1 << 20)
            stage = "Final:     " if second == SECONDS else "[thread 0] "
            lines.append(
                f"{stage}       {rate * second:10}  {time:10.3f} {time:9.3f} {time:9.3f} "
                f"{bandwidth:10.2f} {bandwidth:10.2f} {rate:11} {rate:11}"
            )
    return "\n".join([*lines, ""])


def sockperf(chance: random.Random) -> str:
    """Write a ping-pong test of sockperf with its percentiles."""
    mean = chance.uniform(10, 30)
    seen = chance.randrange(100_000, 200_000)
    tails = ((99.999, 6), (99.990, 4), (99.900, 3), (99, 2), (90, 1.3), (75, 1.1), (50, 1))
    lines = [
        *("== version #3.10-0.git5ebd327da983 == ", "[CLIENT] send on:"),
        *("Warmup stage (sending a few dummy messages)...", "Starting test..."),
        "Test end (interrupted by timer)",
        "Test ended",
        f"[Total Run] RunTime=10.000 sec; Warm up time=400 msec; SentMessages={seen}",
        "========= Printing statistics for Server No: 0",
        f"[Valid Duration] RunTime=9.550 sec; SentMessages={seen}; ReceivedMessages={seen}",
        f"====> avg-latency={mean:.3f} (std-dev={mean / 9:.3f}, mean-ad=0.7, median-ad=0.6)",
        "# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0",
        f"Summary: Latency is {mean:.3f} usec",
        f"Total {seen} observations; each percentile contains {seen / 100:.2f} observations",
        f"---> <MAX> observation = {mean * 20:8.3f}",
        *(f"---> percentile {tail:.3f} = {mean * much:8.3f}" for tail, much in tails),
        f"---> percentile 25.000 = {mean * 0.9:8.3f}",
        f"---> <MIN> observation = {mean * 0.8:8.3f}",
    ]
    used = "sockperf[CLIENT] send on:sockperf: using recvfrom() to block on socket(s)"
    return "".join(
        f"{used}\n\n[ 0] IP = 10.0.0.2        PORT = 11111 # TCP\n"
        if text.startswith("[CLIENT]")
        else f"sockperf: {text}\n"
        for text in lines
    )


def qperf(chance: random.Random) -> str:
    """Write `qperf -v` of TCP and RDMA: bandwidth and latency."""
    lines = []
    for kind in ("tcp", "udp", "rc_rdma_write", "rc", "ud"):
        rate, time = chance.uniform(2, 12), chance.uniform(2, 30)
        many = chance.randrange(10_000, 900_000)
        lines += [
            f"{kind}_bw:",
            f"    bw               =     {rate:.2f} GB/sec",
            f"    msg_rate         =     {many / 1e3:.1f} K/sec",
            "    msg_size         =       64 KiB (65,536)",
            "    time             =        2 sec",
            f"    send_cost        =      {rate * 10:.0f} ms/GB",
            f"    recv_cost        =      {rate * 12:.0f} ms/GB",
            f"    send_cpus_used   =     {time:.1f} % cpus",
            f"    recv_cpus_used   =     {time:.1f} % cpus",
            f"{kind}_lat:",
            f"    latency         =     {time:.2f} us",
            f"    msg_rate        =     {1e3 / time:.1f} K/sec",
            "    msg_size        =        1 bytes",
            "    time            =        2 sec",
            f"    loc_cpus_used   =     {time:.1f} % cpus",
            f"    rem_cpus_used   =     {time:.1f} % cpus",
        ]
    return "\n".join([*lines, ""])


def netperf(chance: random.Random) -> str:
    """Write TCP_STREAM, TCP_RR and UDP_STREAM of netperf."""
    where = "from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 () port 0 AF_INET"
    rate = chance.uniform(9000, 9400)
    many = chance.randrange(1_000_000)
    return "\n".join(
        [
            f"MIGRATED TCP STREAM TEST {where}",
            "Recv   Send    Send                          ",
            "Socket Socket  Message  Elapsed              ",
            "Size   Size    Size     Time     Throughput  ",
            "bytes  bytes   bytes    secs.    10^6bits/sec  ",
            "",
            f"131072  16384  16384    10.00    {rate:.2f}   ",
            f"MIGRATED TCP REQUEST/RESPONSE TEST {where} : first burst 0",
            "Local /Remote",
            "Socket Size   Request  Resp.   Elapsed  Trans.",
            "Send   Recv   Size     Size    Time     Rate         ",
            "bytes  Bytes  bytes    bytes   secs.    per sec   ",
            "",
            f"16384  87380  1        1       10.00    {rate * 4:.2f}   ",
            "16384  87380 ",
            f"MIGRATED UDP STREAM TEST {where}",
            "Socket  Message  Elapsed      Messages                ",
            "Size    Size     Time         Okay Errors   Throughput",
            "bytes   bytes    secs            #      #   10^6bits/sec",
            "",
            f"212992   65507   10.00      {many}      0    {rate * 0.9:.2f}",
            f"212992           10.00      {many}           {rate * 0.8:.2f}",
            "",
            "",
        ]
    )


def fabtests(chance: random.Random) -> str:
    """Write `fi_rdm_pingpong -S all`: powers of two, and what lies in the middle of them."""
    sizes = sorted({*POWERS, *(size + size // 2 for size in POWERS[:-1])})
    lines = ["bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec"]
    for size in sizes:
        time = round((5 + size / 11e3) * chance.uniform(1, 1.05), 2)
        shown = next(
            f"{size / unit:.1f}{name}" if size % unit else f"{size // unit}{name}"
            for name, unit in (("m", 1 << 20), ("k", 1 << 10), ("", 1))
            if size >= unit and not (name and size * 10 % unit)
        )
        lines.append(
            f"{shown:<8}1k      =1k      {shown:<8}{time / 50:8.2f}s{size / time:10.2f}{time:11.2f}"
            f"{1 / time:11.2f}"
        )
    return "\n".join([*lines, ""])


def k8s_netperf(chance: random.Random) -> str:
    """Write the three tables of k8s-netperf: streams, requests, and their 99th percentiles."""
    names = (
        *("RESULT TYPE", "DRIVER", "SCENARIO", "PARALLELISM", "HOST NETWORK", "SERVICE"),
        *("MESSAGE SIZE", "SAME NODE", "DURATION", "SAMPLES", "AVG VALUE"),
    )
    lines = []
    for title, scenario, unit in (
        ("📊 Stream Results", "TCP_STREAM", "Mb/s"),
        ("📊 Rr Results", "TCP_RR", "OP/s"),
        ("📊 Rr Latency Results", "TCP_RR", "usec"),
    ):
        rows = [
            (
                *(title, driver, scenario, str(many), host, service, str(size), "false", "10", "3"),
                f"{chance.uniform(900, 20_000):.6f} ({unit})",
            )
            for driver in ("netperf", "iperf3", "uperf")
            for many in (1, 2)
            for host, service in (("true", "false"), ("false", "false"), ("false", "true"))
            for size in (64, 1024, 8192)
        ]
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        border = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
        shown = [
            "| " + " | ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)) + " |"
            for row in (names, *rows)
        ]
        lines += [border, shown[0], border, *shown[1:], border]
    return "\n".join([*lines, ""])


def k8s_perf_tests(chance: random.Random) -> str:
    """Write the table of kubernetes/perf-tests: a column per segment size."""
    lines = ["ALL TESTCASES AND MSS RANGES COMPLETE - GENERATING CSV OUTPUT"]
    lines.append("the output for each MSS testpoint is a single value in Gbits/sec")
    lines.append("MSS                                          , Maximum, ")
    lines[-1] += ", ".join(map(str, SEGMENTS))
    for number, (tool, path) in enumerate(
        (t, p) for t in ("iperf TCP.", "netperf.") for p in PATHS
    ):
        rates = [chance.randrange(10_000, 26_000) for _ in SEGMENTS]
        figures = ",".join(map(str, rates))
        lines.append(f"{number + 1} {tool} {path:<34},{max(rates)}.000000,{figures},")
    return "\n".join([*lines, ""])


def knb(chance: random.Random) -> str:
    """Write a report of k8s-bench-suite: all paths and protocols, with the load of both sides."""
    rule = "=" * 57
    lines = [rule, " Benchmark Results", rule, f" Name            : knb-{chance.randrange(9999)}"]
    lines += [" Date            : 2026-01-07 02:21:05 UTC", " Generator       : knb"]
    lines += [" Version         : 1.5.0", " Server          : node-1", " Client          : node-2"]
    lines += [" UDP Socket size : auto", rule]
    lines.append("  Discovered CPU         : Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz")
    lines += ["  Discovered Kernel      : 3.10.0-1062.18.1.el7.x86_64"]
    lines += ["  Discovered k8s version : v1.17.4", "  Discovered MTU         : 1440", "  Idle :"]
    lines += ["    bandwidth = 0 Mbit/s", *_load(chance, "client"), *_load(chance, "server")]
    for path in ("Pod to pod", "Pod to Service"):
        lines.append(f"  {path} :")
        for protocol in ("TCP", "UDP"):
            lines += [
                f"    {protocol} :",
                f"      bandwidth = {chance.randrange(500, 9999)} Mbit/s",
            ]
            lines += [f"  {line}" for side in ("client", "server") for line in _load(chance, side)]
    return "\n".join([*lines, rule, ""])


def _load(chance: random.Random, side: str) -> list[str]:
    user, system = chance.uniform(1, 9), chance.uniform(1, 9)
    return [
        (
            f"    {side} cpu = total {user + system:.2f}% (user {user:.2f}%, nice 0.01%, system "
            f"{system:.2f}%, iowait 0.04%, steal 0.00%)"
        ),
        f"    {side} ram = {chance.randrange(4000, 8000)} MB",
    ]


def mpi_test(chance: random.Random) -> str:
    """Write the transfers of two ranks."""
    lines = []
    for rank in (0, 1) * TRANSFERS:
        time = round(chance.uniform(20, 25), 1)
        lines.append(
            f"Process {rank} transferred 100 MB in {time:.1f} ms ({1e5 / time:.1f} MB/sec)\n"
        )
    return "".join(lines)


def mlbench(chance: random.Random) -> str:
    """Write the lines of p2p.py, and its document, for a message of 38 MiB."""
    rates = [chance.uniform(900, 1200) for _ in range(TRANSFERS)]
    size = 10_000_000 * 4 / (1 << 20)
    lines = [f"Sending vector: {at}-th iteration" for at in range(TRANSFERS)]
    mean = chance.uniform(900, 999)
    lines.append(f"Transfer {size:.6f} MB in {size / mean:.6f} seconds. [{mean:.6f} MB/s]")
    found = {"Throughput (MB/s)": rates, "size": size, "n_iters": TRANSFERS, "length": 10_000_000}
    return "\n".join(["Vector Size=38.1 MB", *lines, json.dumps(found), ""])


NETWORKS: dict[str, Callable[[random.Random], str]] = {
    "perftest": perftest,
    "ucx_perftest": ucx_perftest,
    "sockperf": sockperf,
    "qperf": qperf,
    "netperf": netperf,
    "fabtests": fabtests,
    "k8s_netperf": k8s_netperf,
    "k8s_perf_tests": k8s_perf_tests,
    "knb": knb,
    "mpi_test": mpi_test,
    "mlbench": mlbench,
}
