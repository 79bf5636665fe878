"""k8s-netperf: a table of means of netperf, iperf3 and uperf between pods or hosts.

https://github.com/cloud-bulldozer/k8s-netperf
"""

import re

from cluster.core.model.value import Scalar
from cluster.logs.parsers import ResultBuilder, RunParser, count, define, number

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
_BORDER = re.compile(r"\s*\+-[-+]+\+\s*$")
_NAMES = ("RESULT TYPE", "TYPE")  # of the first column


class K8sNetperf(RunParser):
    """k8s-netperf: Mb/s of 1e6 bits and transactions per second, with client and server."""

    marks = ("HOST NETWORK",)
    definitions = DEFINITIONS
    title = "k8s-netperf"
    _columns: tuple[str, ...] = ()

    def take(self, line: str, lineno: int) -> bool:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[0] in _NAMES and "HOST NETWORK" in cells:
            self._open(lineno)
            self._columns = tuple(cells)
            return True
        if self._run is None:
            return False
        if "|" not in line or len(cells) != len(self._columns):
            return _BORDER.match(line) is not None
        return self._row(self._run, dict(zip(self._columns, cells, strict=True)))

    def _row(self, run: ResultBuilder, row: dict[str, str]) -> bool:
        value = _VALUE.fullmatch(row.get("AVG VALUE", ""))
        if value is None:  # such as the number of retransmissions
            return "AVG VALUE" in row
        if value[2] not in _UNITS:
            return False
        definition, scale = _UNITS[value[2]]
        size = count(row.get("MESSAGE SIZE", "")) or 0
        point: dict[str, Scalar] = {"driver": row.get("DRIVER", ""), "size": size}
        for name in ("SCENARIO", "PARALLELISM", "HOST NETWORK", "SERVICE", "SAME NODE"):
            point[name.lower().replace(" ", "_")] = row.get(name, "")
        if burst := count(row.get("BURST", "")):
            point["burst"] = burst  # requests under way at once
        if row.get("SAME NODE") == "true":
            point["hosts"] = 1
        run.add(definition, (number(value[1]) or 0.0) * scale, point, size=size)
        return True
