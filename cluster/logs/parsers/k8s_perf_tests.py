"""The network benchmark of kubernetes/perf-tests: a row per path, a column per segment size.

It runs iperf (`-f m`) and netperf, so all its figures are Mbit/s, though it prints that they were
Gbits/sec. https://github.com/kubernetes/perf-tests/tree/master/network/benchmarks/netperf
"""

from __future__ import annotations

import re
from array import array
from itertools import compress
from typing import TYPE_CHECKING, ClassVar

from cluster.core.model.measurements import Definition
from cluster.logs.columns import CellPoints
from cluster.logs.parsers import RunParser, count, number
from cluster.logs.rows import decimals
from cluster.logs.series import TableCells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.value import Scalar

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
_ROW = re.compile(r"\s*\d{1,2} ((?:iperf|netperf|qperf)\b[^,]+?)\s*,(\d+\.\d+),([\d,]*)\s*$")
_KNOWN = re.compile(
    r"\s*(?:ALL TESTCASES AND MSS RANGES COMPLETE|the output for each MSS testpoint)"
)
MEGABIT = 1e6 / 8


def _figures(cells: list[str]) -> Sequence[float | None]:
    try:
        return decimals(cells)
    except ValueError:
        return [number(cell) for cell in cells]  # some are missing


def _point(test: str) -> dict[str, Scalar]:
    """Return the parameters of a path; one within a virtual machine passes no network."""
    return {"test": test, "hosts": 1} if "Same VM" in test else {"test": test}


class K8sPerfTests(RunParser):
    """kubernetes/perf-tests: Mbit/s per path between pods and per segment size."""

    marks: ClassVar[tuple[str, ...]] = (" , Maximum, ",)
    definitions: ClassVar[tuple[Definition, ...]] = (BANDWIDTH,)
    title: ClassVar[str] = "kubernetes/perf-tests"

    def __init__(self) -> None:
        super().__init__()
        self._sizes: tuple[int, ...] = ()  # 0 where the header has no number
        self._points = CellPoints()
        self._rows: dict[tuple[object, ...], tuple[TableCells, tuple[bool, ...]]] = {}

    def take(self, line: str, number_: int) -> bool:
        """Read the header or a row."""
        head, row = _HEAD.match(line), _ROW.match(line)
        if head:
            self._begin(number_).note("its figures are Mbit/s, though it says Gbits/sec")
            self._sizes = tuple(count(cell.strip()) or 0 for cell in head[1].split(","))
            return True
        if row is None or self._run is None:
            return _KNOWN.match(line) is not None
        found = _figures(row[3].removesuffix(",").split(","))
        if any(found):
            there = tuple(map(bool, found))  # 0 or nothing: it was not measured
            cells, used = self._cells(row[1], there)
            figures = [value * MEGABIT for value in compress(found, used) if value]
            self._run.add_cells(cells, array("d", figures))
        else:  # UDP, of which there is only the best
            self._run.add(BANDWIDTH, (number(row[2]) or 0.0) * MEGABIT, _point(row[1]))
        return True

    def _cells(self, test: str, there: tuple[bool, ...]) -> tuple[TableCells, tuple[bool, ...]]:
        """Return the cells of a row, and which of its figures are theirs."""
        key = (test, self._sizes, there)
        if key not in self._rows:
            pairs = zip(self._sizes, there, strict=False)
            used = tuple(bool(size) and is_there for size, is_there in pairs)
            sizes = compress(self._sizes, used)
            points = [
                self._points.at(BANDWIDTH.metric, _point(test) | {"segment": size})
                for size in sizes
            ]
            self._rows[key] = TableCells((BANDWIDTH,), ((0, point) for point in points)), used
        return self._rows[key]
