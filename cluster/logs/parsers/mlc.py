"""Intel Memory Latency Checker (`mlc`): matrices of latency and bandwidth between NUMA nodes.

The row is the node whose cores read, the column the node whose memory they read. Latencies are in
ns; bandwidth is in MB/sec of 1e6 bytes, with all cores of the row reading at once.
https://www.intel.com/content/www/us/en/developer/articles/tool/intelr-memory-latency-checker.html
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from cluster.core.model.measurements import Definition
from cluster.logs.parsers import MB, RunParser, numbers

if TYPE_CHECKING:
    from cluster.core.model.value import Scalar
    from cluster.logs.parsers import ResultBuilder

_mlc = partial(
    Definition,
    benchmark="mlc",
    synchronisation="none: one node reads at a time",
    warm_up="not known",
)
LATENCY = _mlc(
    metric="memory_latency",
    unit="s",
    better="lower",
    what="one dependent load of a core of a NUMA node (row) from the memory of a node (column); "
    "printed in ns",
    clock="that of the core",
    aggregation="one rank",
)
BANDWIDTH = _mlc(
    metric="memory_bandwidth",
    unit="B/s",
    better="higher",
    what="what all cores of a NUMA node (row) read from the memory of a node (column); printed in "
    "MB/sec of 1e6 bytes",
    clock="that of the cores",
    aggregation="all ranks",
)

NANO = 1e9  # nanoseconds per second
NO_ROW = "the rows of nodes {} are missing: they have no cores, or the log is cut off"

_FIRST = re.compile(r"\s*Intel\(R\) Memory Latency Checker - v(\S+)")
_TITLE = re.compile(
    r"\s*Measuring (?:(idle latencies\b.*\(in ns\))"
    r"|(Memory Bandwidths between nodes within system))"
)
_OTHER = re.compile(r"\s*(?:Measuring (?:Peak Injection|Loaded Lat|cache-to-cache)|Inject\s+Lat)")
_HEADER = re.compile(r"\s*(?:Numa node|Socket)((?:\s+\d{1,3})+)\s*$")
_KNOWN = re.compile(
    r"\s*(?:(?:Numa|Memory) node\s*$|Bandwidths are in MB/sec|Using \w+-only traffic|"
    r"Using (?:all the threads|only one thread) from each core|"
    r"Using buffer size of|Command line parameters:)"
)


class Mlc(RunParser):
    """Intel MLC: latency (ns) and bandwidth (MB/sec) of each NUMA node's memory."""

    marks: ClassVar[tuple[str, ...]] = (
        *("Memory Latency Checker", "Measuring idle latencies"),
        "Measuring Memory Bandwidths between nodes",
    )
    has_rows: ClassVar[bool] = True
    definitions: ClassVar[tuple[Definition, ...]] = (LATENCY, BANDWIDTH)
    title: ClassVar[str] = "Memory Latency Checker"

    def __init__(self) -> None:
        """Begin outside any matrix."""
        super().__init__()
        self._definition: Definition | None = None
        self._columns: list[int] = []
        self._left: list[int] = []  # rows that the open matrix may still have

    def take(self, line: str, number: int) -> bool:
        """Read a title, a header or a row."""
        if line.lstrip()[:1].isdigit():
            return bool(self._left) and self._row(line.split())
        first, title, header = _FIRST.match(line), _TITLE.match(line), _HEADER.match(line)
        if first:
            self._begin(number, f"{self.title} v{first[1]}")
            self._close()
        elif title:
            self._miss()
            self._open(number)
            self._definition, self._columns = (LATENCY if title[1] else BANDWIDTH), []
        elif _OTHER.match(line):
            self._miss()
        elif header and self._definition:
            self._columns = [int(cell) for cell in header[1].split()]
            self._left = [*self._columns]
        else:
            return bool(self._run and _KNOWN.match(line))
        return bool(self._run)

    def expects(self, line: str) -> bool:
        """Tell whether a row is the next one of the open matrix."""
        cells = line.split()
        return bool(self._left) and cells[:1] == [str(self._left[0])] and self._fits(cells)

    def _fits(self, cells: list[str]) -> bool:
        return len(cells) == len(self._columns) + 1

    def _row(self, cells: list[str]) -> bool:
        known = [str(node) for node in self._left]
        if self._run is None or self._definition is None or not self._fits(cells):
            return False
        values = numbers(cells[1:])
        if cells[0] not in known or values is None or min(values) <= 0:
            return False
        self._left = self._left[known.index(cells[0]) + 1 :]
        self._add(self._run, self._definition, int(cells[0]), values)
        return True

    def _add(
        self, run: ResultBuilder, definition: Definition, row: int, values: list[float]
    ) -> None:
        for column, value in zip(self._columns, values, strict=True):
            params: dict[str, Scalar] = {"row": row, "column": column}
            scaled = value / NANO if definition is LATENCY else value * MB
            run.add(definition, scaled, params)

    def _miss(self) -> None:
        """Note the rows that the open matrix lacks, and end it."""
        if self._run is not None and self._left:
            self._run.note(NO_ROW.format(", ".join(map(str, self._left))))
        self._close()

    def _close(self) -> None:
        self._definition, self._columns, self._left = None, [], []

    def _finish(self, run: ResultBuilder) -> None:
        self._miss()
        super()._finish(run)
