"""HPC Challenge: the summary section of `hpccoutf.txt`, a name and its value per line.

https://hpcchallenge.org
"""

from __future__ import annotations

import re
from array import array
from functools import lru_cache, partial
from typing import ClassVar

from cluster.core.model.measurements import Definition
from cluster.logs.columns import CellPoints
from cluster.logs.parsers import GB, RunParser, count, number
from cluster.logs.rows import cells_of, decimals
from cluster.logs.series import TableCells

_hpcc = partial(
    Definition,
    benchmark="hpcc",
    clock="MPI_Wtime",
    synchronisation="a barrier before each test",
    warm_up="as each of its tests does",
)
LATENCY = _hpcc(
    metric="latency",
    unit="s",
    better="lower",
    what="one way of 8 bytes between pairs of processes or in a ring; printed in usec",
    aggregation="one rank",
)
BANDWIDTH = _hpcc(
    metric="bandwidth",
    unit="B/s",
    better="higher",
    what="messages of 2,000,000 bytes between pairs of processes or in a ring; printed in GBytes",
    aggregation="one rank",
)
TRANSPOSE = _hpcc(
    metric="transpose_rate",
    unit="B/s",
    better="higher",
    what="PTRANS: bytes of a matrix that is transposed across all processes; printed in GB/s",
    aggregation="all ranks",
)
STREAM = _hpcc(
    metric="memory_bandwidth",
    unit="B/s",
    better="higher",
    what="STREAM of one process; printed in GB/s",
    aggregation="one rank",
)
FLOPS = _hpcc(
    metric="flops_rate",
    unit="FLOP/s",
    better="higher",
    what="operations per second: HPL and MPIFFT of all processes, the others of one",
    aggregation="all ranks",
)
UPDATES = _hpcc(
    metric="update_rate",
    unit="updates/s",
    better="higher",
    what="RandomAccess: updates of memory per second; printed in GUP/s",
    aggregation="all ranks",
)
_LINES = re.compile(r"(?:[ \t]*+[A-Za-z]\w{1,60}=[^\s=]{1,80}[ \t]*+\n)+")
MOST = 1000  # names of lines that are kept
_BEGIN = re.compile(r"\s*Begin of Summary section\.")
_END = re.compile(r"\s*End of Summary section\.")
_LINE = re.compile(r"\s*([A-Za-z]\w{1,60})=(\S+)\s*$")
_KINDS = (
    (re.compile(r"\w*(?:Latency)_usec"), LATENCY, 1e-6),
    (re.compile(r"\w*Bandwidth_GBytes"), BANDWIDTH, GB),
    (re.compile(r"PTRANS_GBs"), TRANSPOSE, GB),
    (re.compile(r"(?:Star|Single)STREAM_(?:Copy|Scale|Add|Triad)"), STREAM, GB),
    (re.compile(r"HPL_Tflops"), FLOPS, 1e12),
    (re.compile(r"(?:MPI|Star|Single)(?:FFT|DGEMM)_Gflops"), FLOPS, 1e9),
    (re.compile(r"\w*RandomAccess(?:_LCG)?_GUPs"), UPDATES, 1e9),
)


class Hpcc(RunParser):
    """HPC Challenge: latencies in usec, GBytes of 1e9 bytes, Gflops."""

    marks: ClassVar[tuple[str, ...]] = ("Summary section", "PingPongLatency_usec", "HPL_Tflops")
    definitions: ClassVar[tuple[Definition, ...]] = (
        *(LATENCY, BANDWIDTH, TRANSPOSE, STREAM, FLOPS, UPDATES),
    )
    title: ClassVar[str] = "HPC Challenge"

    def __init__(self) -> None:
        super().__init__()
        self._is_ended = False
        self._names: set[str] = set()  # of the figures of the open summary
        self._points = CellPoints()
        self._known: dict[tuple[str, ...], TableCells] = {}  # of figures that come together

    def take(self, line: str, number_: int) -> bool:
        """Read a line of the summary."""
        said = _LINE.match(line)
        if _BEGIN.match(line):
            self._begin(number_)
            self._is_ended = False
        elif _END.match(line) and self._run:
            self._is_ended = True
        elif said:
            return self._said(said[1], said[2], number_)
        else:
            return False
        return True

    def _said(self, name: str, text: str, number_: int) -> bool:
        value = number(text)
        if name == "CommWorldProcs" and count(text):
            self._open(number_).ranks = int(text)
            return True
        kind = _kind(name)
        if kind is None or value is None:
            return self._run is not None and not self._is_ended
        if name in self._names:
            self._begin(number_)  # of another summary, whose first lines are missing
            self._is_ended = False
        self._names.add(name)
        run = self._open(number_)
        if value > 0:  # tests that did not run print -1 or 0
            run.add(kind[0], value * kind[1], {"test": name.rpartition("_")[0]})
        return True

    def take_rows(self, text: str, at: int, number_: int) -> int:
        """Take lines of the open summary, each with a figure of its own."""
        cells, end = cells_of(text, at, _LINES) if self._run and not self._is_ended else ([], at)
        if self._run is None or not cells:
            return at
        said = {name: figure for name, _, figure in (cell.partition("=") for cell in cells)}
        names = [name for name in said if _kind(name)]
        try:
            figures = decimals([said[name] for name in names])
        except ValueError:
            return at
        if len(said) < len(cells) or not self._names.isdisjoint(said):
            return at
        self._names |= said.keys()
        if "CommWorldProcs" in said:
            self._said("CommWorldProcs", said["CommWorldProcs"], number_)
        measured = tuple(name for name, value in zip(names, figures, strict=True) if value > 0)
        if measured not in self._known:
            self._known[measured] = self._cells(measured)
        values = (value for value in figures if value > 0)
        scaled = [value * _scale(name) for name, value in zip(measured, values, strict=True)]
        self._run.add_cells(self._known[measured], array("d", scaled))
        return end

    def _cells(self, names: tuple[str, ...]) -> TableCells:
        kinds = [kind[0] for kind in map(_kind, names) if kind]
        metrics = list(dict.fromkeys(kinds))
        points = (
            self._points.at(kind.metric, {"test": name.rpartition("_")[0]})
            for kind, name in zip(kinds, names, strict=True)
        )
        return TableCells(metrics, zip(map(metrics.index, kinds), points, strict=True))

    def _end(self) -> None:
        if self._run is not None and not self._run.empty and not self._is_ended:
            self._run.note("its summary is cut off: figures may be missing")
        super()._end()
        self._names.clear()


@lru_cache(MOST)
def _kind(name: str) -> tuple[Definition, float] | None:
    """Find what a line measures, and its unit."""
    return next((kind[1:] for kind in _KINDS if kind[0].fullmatch(name)), None)


def _scale(name: str) -> float:
    kind = _kind(name)
    return kind[1] if kind else 0.0
