"""The network benchmark of kubernetes/perf-tests: a row per path, a column per segment size.

It runs iperf (`-f m`) and netperf, so all its figures are Mbit/s, though it prints that they were
Gbits/sec. https://github.com/kubernetes/perf-tests/tree/master/network/benchmarks/netperf
"""

from __future__ import annotations

import re
from typing import ClassVar

from cluster.core.model.measurements import Definition
from cluster.logs.parsers import RunParser, count, number

BANDWIDTH = Definition(
    benchmark="k8s_perf_tests",
    metric="bandwidth",
    unit="B/s",
    better="higher",
    what="between two pods, of 8 parallel streams (netperf: one); in Mbit/s, named Gbits/sec",
    clock="that of iperf or netperf",
    synchronisation="each test alone",
    warm_up="none",
    aggregation="one rank",
    flow="one way",
    medium="TCP",
)
_HEAD = re.compile(r"\s*MSS\s*, Maximum, (\d[\d, ]*?),?\s*$")
_ROW = re.compile(r"\s*\d{1,2} ((?:iperf|netperf|qperf)\b[^,]+?)\s*,(\d+\.\d+),([\d,]*?),?\s*$")
_KNOWN = re.compile(
    r"\s*(?:ALL TESTCASES AND MSS RANGES COMPLETE|the output for each MSS testpoint)"
)
MEGABIT = 1e6 / 8


class K8sPerfTests(RunParser):
    """kubernetes/perf-tests: Mbit/s per path between pods and per segment size."""

    marks: ClassVar[tuple[str, ...]] = ("MSS , Maximum",)
    definitions: ClassVar[tuple[Definition, ...]] = (BANDWIDTH,)
    title: ClassVar[str] = "kubernetes/perf-tests"

    def __init__(self) -> None:
        """Begin outside any table."""
        super().__init__()
        self._sizes: list[int | None] = []

    def take(self, line: str, number_: int) -> bool:
        """Read the header or a row."""
        head, row = _HEAD.match(line), _ROW.match(line)
        if head:
            self._begin(number_).note("its figures are Mbit/s, though it says Gbits/sec")
            self._sizes = [count(cell.strip()) for cell in head[1].split(",")]
            return True
        if row is None or self._run is None:
            return _KNOWN.match(line) is not None
        found = [number(cell) for cell in row[3].split(",")]
        if any(found):
            for size, value in zip(self._sizes, found, strict=False):
                if value and size:  # 0 or nothing: not measured
                    self._run.add(BANDWIDTH, value * MEGABIT, {"test": row[1], "segment": size})
        else:  # UDP, of which there is only the best
            self._run.add(BANDWIDTH, (number(row[2]) or 0.0) * MEGABIT, {"test": row[1]})
        return True
