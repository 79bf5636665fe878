"""Evidence that tests make up for rules: of logs, and of our own runs."""

import json
from typing import Protocol

from cluster.analysis.verdict.evidence import Evidence
from cluster.core.model.hosts import Facts, Interface
from cluster.core.model.results.measurements import Summary
from cluster.core.model.value import Scalar
from tests.plain_values import plain_definition, plain_facts, plain_summary


class Look(Protocol):
    def __call__(self, text: str, hardware: str = "", hosts: int = 0) -> Evidence: ...


ONE_WAY = plain_definition(
    benchmark="iperf",
    metric="received",
    unit="B/s",
    better="higher",
    aggregation="all ranks",
    flow="one way",
)


def summary(median: float, **params: Scalar) -> Summary:
    return plain_summary(median, ONE_WAY, params=params, bound=1e12, share=median / 1e12)


def facts(*summaries: Summary, **fields: object) -> Evidence:
    words = {"summaries": summaries, "definitions": {ONE_WAY.id: ONE_WAY}, **fields}
    return Evidence(**words)  # type: ignore[arg-type]


def host(name: str, *interfaces: Interface, cores: int = 8) -> Facts:
    return plain_facts(name, cores=cores, usable_cores=cores, interfaces=interfaces)


def iperf3(rate: float, streams: int = 1, **words: object) -> str:
    """Write what iperf3 -J prints, at a rate in bytes per second."""
    total = {"seconds": 10.0, "bytes": rate * 10, "bits_per_second": rate * 8}
    return json.dumps(
        {
            "start": {
                "version": f"iperf {words.get('version', '3.17')}",
                "connecting_to": {"host": "b"},
                "tcp_mss_default": words.get("mss", 8949),
                "test_start": {"protocol": "TCP", "num_streams": streams},
            },
            "intervals": [],
            "end": {
                "sum_sent": {**total, "retransmits": words.get("again", 0)},
                "sum_received": total,
                "sender_tcp_congestion": words.get("congestion", "cubic"),
                "cpu_utilization_percent": {"host_total": words.get("cpu", 20.0)},
            },
        }
    )


def nccl(*vias: str, network_: str = "IB", extra: str = "") -> str:
    """Write a log of NCCL of two hosts."""
    lines = [f"Channel 0{i}/0 : 0[0] -> 1[0] [send] via {via}" for i, via in enumerate(vias)]
    words = [
        extra,
        f"Using network {network_}",
        "comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0",
        *lines,
        "Connected all rings",
    ]
    return "".join(f"a:1:1 [0] NCCL INFO {word}\n" for word in words if word)


ALONE = (
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20\n"
    "#   Rank  0 Pid  {pid} on a device  0 [0x00] Tesla T4\n"
    "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
    " 1048576 262144 float sum -1 10.00 104.86 {bus} 0 10.00 104.86 {bus} 0\n"
    "# Avg bus bandwidth    : {bus}\n"
)
BW = "# OSU MPI Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n4194304         {rate}\n"
