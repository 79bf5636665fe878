"""Intel Memory Latency Checker (`mlc`): matrices of latency and bandwidth between NUMA nodes.

The row is the node whose cores read, the column the node whose memory they read. Latencies are in
ns; bandwidth is in MB/sec of 1e6 bytes, with all cores of the row reading at once.
https://www.intel.com/content/www/us/en/developer/articles/tool/intelr-memory-latency-checker.html
"""

import re
from functools import partial

from cluster.core.model.results.measurements import Definition
from cluster.logs.parsers import MB, NANO, ResultBuilder, RunParser, define, number, numbers

_mlc = partial(define, "mlc", synchronisation="none: one node reads at a time", warm_up="not known")
(LATENCY,) = _mlc(
    """
    memory_latency (s): one dependent load of a core of a NUMA node (row) from the memory of a node
        (column); printed in ns
    """,
    clock="that of the core",
)
BANDWIDTH, PEAK = _mlc(
    """
    memory_bandwidth (B/s, all ranks): what all cores of a NUMA node (row) read from the memory of a
        node (column); printed in MB/sec of 1e6 bytes
    peak_injection (B/s, all ranks): what all cores of a host read and write together, in a mix;
        printed in MB/sec of 1e6 bytes
    """,
    clock="that of the cores",
)

_FIRST = re.compile(r"\s*Intel\(R\) Memory Latency Checker - v(\S+)")
_TITLE = re.compile(
    r"\s*Measuring (?:(idle latencies\b.*\(in ns\))"
    r"|(Memory Bandwidths between nodes within system))"
)
_OTHER = re.compile(
    r"\s*(?:Measuring (?:(Peak Injection)|Loaded Lat|cache-to-cache)|(Inject\s+Lat))"
)
_MIX = re.compile(
    r"\s*(ALL Reads|\d{1,2}:\d{1,2} Reads-Writes|Stream-triad like)\s*:\s*([\d.]{1,20})\s*$"
)
_LOADED = re.compile(r"(?:[ \t]*+\d{5}(?:[ \t]++\d{1,18}+\.\d{1,9}+){2}[ \t]*+(?:\n|\Z))+")
_HEADER = re.compile(r"\s*(?:Numa node|Socket)((?:\s+\d{1,3})+)\s*$")
_KNOWN = re.compile(
    r"\s*(?:(?:Numa|Memory) node\s*$|Bandwidths are in MB/sec|Delay\s+\(ns\)|Using traffic with|"
    r"Using \w+-only traffic|Using (?:all the threads|only one thread) from each core|"
    r"Using buffer size of|Command line parameters:|={4,}\s*$)"
)


class Mlc(RunParser):
    """Intel MLC: latency (ns) and bandwidth (MB/sec) of each NUMA node's memory."""

    marks = (
        "Memory Latency Checker",
        "Measuring idle latencies",
        "Measuring Memory Bandwidths between nodes",
        "Measuring Peak Injection",
    )
    has_rows = True
    definitions = (LATENCY, BANDWIDTH, PEAK)
    title = "Memory Latency Checker"

    def _reset(self) -> None:
        self._definition: Definition | None = None
        self._columns: list[int] = []
        self._open_rows: list[int] = []  # rows that the open matrix may still have
        self._is_loaded = False  # whether rows of latencies under load follow
        self._is_peak = False  # whether rows of mixes of reads and writes follow

    def take(self, line: str, lineno: int) -> bool:
        if self._figures(line):
            return True
        if first := _FIRST.match(line):
            self._begin(lineno, f"{self.title} v{first[1]}")
        elif title := _TITLE.match(line):
            self._miss()
            definition = LATENCY if title[1] else BANDWIDTH
            self._open_table(definition, lineno)
            self._definition = definition
        elif other := _OTHER.match(line):
            self._miss()
            if other[1]:
                self._open_table(PEAK, lineno)
            self._is_peak = other[1] is not None
            self._is_loaded = self._run is not None and other[2] is not None
            if self._run is not None and self._is_loaded:
                self._run.note("under_load")
        elif self._definition and (header := _HEADER.match(line)):
            self._columns = list(map(int, header[1].split()))
            self._open_rows = self._columns
        else:
            return self._run is not None and _KNOWN.match(line) is not None
        return self._run is not None

    def _figures(self, line: str) -> bool:
        """Read a row of a matrix or of a mix; rows of latencies under load are only known."""
        mix = _MIX.match(line) if self._is_peak else None
        if mix and self._run is not None and (value := number(mix[2])):
            self._run.add(PEAK, value * MB, {"mix": mix[1]})
            return True
        if not line.lstrip()[:1].isdigit():
            return False
        is_loaded = self._is_loaded and _LOADED.match(line) is not None
        return is_loaded or (bool(self._open_rows) and self._row(line.split()))

    def expects(self, line: str) -> bool:
        cells = line.split()
        is_next = bool(self._open_rows) and cells[:1] == [str(self._open_rows[0])]
        return is_next and self._fits(cells)

    def _fits(self, cells: list[str]) -> bool:
        return len(cells) == len(self._columns) + 1

    def _row(self, cells: list[str]) -> bool:
        nodes = [str(node) for node in self._open_rows]
        if self._run is None or self._definition is None or not self._fits(cells):
            return False
        values = numbers(cells[1:])
        if cells[0] not in nodes or values is None or min(values) <= 0:
            return False
        self._open_rows = self._open_rows[nodes.index(cells[0]) + 1 :]
        is_time = self._definition is LATENCY
        for column, value in zip(self._columns, values, strict=True):
            figure = value / NANO if is_time else value * MB
            self._run.add(self._definition, figure, {"row": int(cells[0]), "column": column})
        return True

    def _miss(self) -> None:
        """Note the rows that the open matrix lacks, and end it."""
        if self._run is not None and self._open_rows:
            self._run.lack("no_cores", ", ".join(map(str, self._open_rows)))
        self._reset()

    def _finish(self, run: ResultBuilder) -> None:
        self._miss()
        super()._finish(run)
