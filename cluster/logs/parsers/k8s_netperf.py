"""k8s-netperf: a table of means of netperf, iperf3 and uperf between pods or hosts.

https://github.com/cloud-bulldozer/k8s-netperf
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from cluster.logs.parsers import RunParser, count, define, number

if TYPE_CHECKING:
    from cluster.core.model.measurements import Definition
    from cluster.core.model.value import Scalar
    from cluster.logs.parsers import ResultBuilder

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

MOST = 10_000  # rows that are kept


class _RowLabels(NamedTuple):
    """What a row says beside its figure."""

    definition: Definition
    unit: str
    scale: float
    point: dict[str, Scalar]
    size: int


def _apart(line: str) -> tuple[str, str]:
    """Separate the last cell of a row from the others."""
    head, _, figure = line.rstrip(" |").rpartition("|")
    return head, figure.strip()


class K8sNetperf(RunParser):
    """k8s-netperf: Mb/s of 1e6 bits and transactions per second, with who talked to whom."""

    marks = ("HOST NETWORK",)
    definitions = DEFINITIONS
    title = "k8s-netperf"

    def __init__(self) -> None:
        super().__init__()
        self._columns: list[str] = []
        self._rows: dict[str, _RowLabels] = {}  # by their text before the figure

    def take(self, line: str, lineno: int) -> bool:
        """Read a header, a row or a border."""
        if self._run is not None and self._repeated(self._run, line):
            return True
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[0] in _NAMES and "HOST NETWORK" in cells:
            self._open(lineno)
            if cells != self._columns:
                self._rows.clear()
            self._columns = cells
            return True
        if self._run is None:
            return False
        is_row = "|" in line and len(cells) == len(self._columns)
        return self._row(self._run, cells, line) if is_row else _BORDER.match(line) is not None

    def _repeated(self, run: ResultBuilder, line: str) -> bool:
        """Read a row that differs only in its figure from one of an earlier table."""
        head, figure = _apart(line)
        row = self._rows.get(head)
        value = _VALUE.fullmatch(figure) if row else None
        if row is None or value is None or value[2] != row.unit:
            return False
        scaled = (number(value[1]) or 0.0) * row.scale
        run.add(row.definition, scaled, row.point, size=row.size)
        return True

    def _row(self, run: ResultBuilder, cells: list[str], line: str) -> bool:
        named = dict(zip(self._columns, cells, strict=True))
        value = _VALUE.fullmatch(named.get("AVG VALUE", ""))
        if value is None:  # such as the number of retransmissions
            return "AVG VALUE" in named
        if value[2] not in _UNITS:
            return False
        definition, scale = _UNITS[value[2]]
        size = count(named.get("MESSAGE SIZE", "")) or 0
        point: dict[str, Scalar] = {"driver": named.get("DRIVER", ""), "size": size}
        for name in ("SCENARIO", "PARALLELISM", "HOST NETWORK", "SERVICE", "SAME NODE"):
            point[name.lower().replace(" ", "_")] = named.get(name, "")
        if burst := count(named.get("BURST", "")):
            point["burst"] = burst  # requests under way at once
        if named.get("SAME NODE") == "true":
            point["hosts"] = 1
        run.add(definition, (number(value[1]) or 0.0) * scale, point, size=size)
        if self._columns[-1] == "AVG VALUE":
            if len(self._rows) >= MOST:
                self._rows.clear()
            self._rows[_apart(line)[0]] = _RowLabels(definition, value[2], scale, point, size)
        return True
