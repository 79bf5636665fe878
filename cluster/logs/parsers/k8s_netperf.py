"""k8s-netperf: means of netperf, iperf3 and uperf between pods or hosts, a row for each.

https://github.com/cloud-bulldozer/k8s-netperf
"""

import re

from cluster.core.model.value import Scalar
from cluster.logs.parsers import RunParser, count, define, number

STREAM, RATE, TAIL = DEFINITIONS = define(
    "k8s_netperf",
    """
    stream_bandwidth (B/s, one way, TCP): mean over the samples, of all parallel streams; printed in
        Mb/s of 1e6 bits
    transaction_rate (transactions/s): requests with their responses per second, mean over the
        samples
    latency_p99 (s): 99th percentile of a request with its response, mean over the samples; in usec
    """,
    clock="that of the driver: netperf, iperf3 or uperf",
    synchronisation="each test alone",
    warm_up="none",
)
_UNITS = {"Mb/s": (STREAM, 1e6 / 8), "OP/s": (RATE, 1.0), "usec": (TAIL, 1e-6)}
_VALUE = re.compile(r"(\d+(?:\.\d+)?) \((\S+)\)")
_SETTINGS = ("DRIVER", "SCENARIO", "PARALLELISM", "HOST NETWORK", "SERVICE", "SAME NODE")


class K8sNetperf(RunParser):
    """k8s-netperf: Mb/s of 1e6 bits and transactions per second, with client and server."""

    marks = ("HOST NETWORK",)
    definitions = DEFINITIONS
    title = "k8s-netperf"
    _columns: tuple[str, ...] = ()

    def take(self, line: str, lineno: int) -> bool:
        cells = tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
        if "HOST NETWORK" in cells:
            self._open(lineno)
            self._columns = cells
        if self._run is None or len(cells) != len(self._columns):
            return False
        row = dict(zip(self._columns, cells, strict=True))
        value = _VALUE.fullmatch(row.get("AVG VALUE", ""))
        if value is None or value[2] not in _UNITS:
            return value is None  # the header, or the number of retransmissions
        definition, scale = _UNITS[value[2]]
        size = count(row.get("MESSAGE SIZE", "")) or 0
        point: dict[str, Scalar] = {"size": size}
        point |= {name.lower().replace(" ", "_"): row.get(name, "") for name in _SETTINGS}
        if burst := count(row.get("BURST", "")):
            point["burst"] = burst  # requests under way at once
        if row.get("SAME NODE") == "true":
            point["hosts"] = 1
        self._run.add(definition, (number(value[1]) or 0.0) * scale, point, size=size)
        return True
