"""Intel MPI Benchmarks (IMB-MPI1 and its siblings).

`t[usec]` of PingPong is one way: half of a round trip. Mbytes/sec is of 2**20 bytes in old versions
and of 1e6 bytes in new ones: each row says which, by its own bytes over its time.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from cluster.model import Definition
from cluster.parsers import MB, MIB, Parser, Sheet, count, numbers

if TYPE_CHECKING:
    from cluster.foreign import Parsed
    from cluster.model import Scalar

MICRO = 1e6  # of them are one
SLACK = 0.02  # by which bytes over time may differ from the printed rate
ROUNDING = 0.01  # microseconds and Mbytes/sec, to which figures are printed
WAYS = {"pingpong": 1, "pingping": 1, "sendrecv": 2, "exchange": 4}  # bytes counted, of the size

_imb = partial(
    Definition,
    benchmark="imb",
    clock="MPI_Wtime of the ranks",
    synchronisation="barriers before the repetitions of a size",
    warm_up="the warm-up of IMB, some calls of each size",
)
LATENCY = _imb(
    metric="latency",
    unit="s",
    better="lower",
    what="one message, one way: half of a round trip (PingPong), or one of two that cross "
    "(PingPing); mean over repetitions; printed in us",
    aggregation="one rank",
)
MEAN = _imb(
    metric="call_time",
    unit="s",
    better="lower",
    what="one call, mean over repetitions and ranks (t_avg); printed in us",
    aggregation="mean of ranks",
)
FASTEST = _imb(
    metric="call_time_min",
    unit="s",
    better="lower",
    what="one call, mean over repetitions, of the fastest rank (t_min); printed in us",
    aggregation="one rank",
)
SLOWEST = _imb(
    metric="call_time_max",
    unit="s",
    better="lower",
    what="one call, mean over repetitions, of the slowest rank (t_max); printed in us",
    aggregation="one rank",
)
BANDWIDTH = _imb(
    metric="bandwidth",
    unit="B/s",
    better="higher",
    what="bytes one way over the time; printed in Mbytes/sec of 2**20 or 1e6 bytes",
    aggregation="one rank",
    flow="one way",
    medium="network",
)
BOTH_WAYS = _imb(
    metric="bidirectional",
    unit="B/s",
    better="higher",
    what="bytes sent and received by a rank over the time of the slowest; printed in Mbytes/sec of "
    "2**20 or 1e6 bytes",
    aggregation="one rank",
    flow="both ways",
    medium="network",
)
OVERALL = _imb(
    metric="overall_time",
    unit="s",
    better="lower",
    what="a non-blocking call and the computation beside it (t_ovrl); printed in us",
    aggregation="mean of ranks",
)
PURE = _imb(
    metric="pure_time",
    unit="s",
    better="lower",
    what="a non-blocking call with nothing beside it (t_pure); printed in us",
    aggregation="mean of ranks",
)
COMPUTE = _imb(
    metric="compute_time",
    unit="s",
    better="lower",
    what="the computation beside a non-blocking call (t_CPU); printed in us",
    aggregation="mean of ranks",
)
OVERLAP = _imb(
    metric="overlap",
    unit="%",
    better="higher",
    what="the share of a non-blocking call that the computation hides, in percent",
    aggregation="mean of ranks",
)
_TIMES = {
    "t": LATENCY,
    "t_min": FASTEST,
    "t_max": SLOWEST,
    "t_avg": MEAN,
    "t_ovrl": OVERALL,
    "t_pure": PURE,
    "t_CPU": COMPUTE,
}

_START = re.compile(r"\s*#\s*Intel\s*\(R\) MPI Benchmarks?\b.*?(\d{4}[\w .]*|[\d.]+)?[,\s]*")
_NAME = re.compile(r"\s*#\s*Benchmarking (\w+)\s*$")
_PROCESSES = re.compile(r"\s*#\s*#processes = (\d+)")
_HEADER = re.compile(r"\s*#?\s*(?:#bytes\s+)?#repetitions\b")
_COLUMN = re.compile(
    r"#bytes|#repetitions|(?:t\w*|overlap)\[(?:usec|%)\]|Mbytes/sec|Msg/sec|defects"
)
_KNOWN = re.compile(
    r"\s*#\s*(?:-+\s*$|$|\(|\w+\s*$|Calling|List of|Date|Machine|System|Release|Version|IMB-|"
    r"MPI[ _]|Minimum|Maximum|All processes)"
)


class Imb(Parser):
    """Intel MPI Benchmarks: times in us, Mbytes of 2**20 or 1e6 bytes as each row says."""

    marks: ClassVar[tuple[str, ...]] = ("MPI Benchmark", "# Benchmarking", "#repetitions")
    has_rows: ClassVar[bool] = True
    definitions: ClassVar[tuple[Definition, ...]] = (
        *(LATENCY, MEAN, FASTEST, SLOWEST, BANDWIDTH, BOTH_WAYS, OVERALL, PURE, COMPUTE, OVERLAP),
    )

    def __init__(self) -> None:
        """Begin outside any benchmark."""
        self._sheets: list[Sheet] = []
        self._name = ""
        self._params: dict[str, Scalar] = {}
        self._columns: list[str] = []
        self._last = -1
        self._is_any = False  # a heading of a document may say "Benchmarking", too

    def take(self, line: str, number: int) -> bool:
        """Read a header or a row."""
        if line.lstrip()[:1].isdigit():
            return self._row(line.split())
        start, name, processes = _START.match(line), _NAME.match(line), _PROCESSES.match(line)
        if start:
            self._sheets.append(Sheet("imb", number, line.strip("# \t")))
            self._is_any = True
        elif name:
            self._open(number)
            self._name, self._columns = name[1], []
            self._params = {"test": name[1]}
        elif processes:
            self._is_any = True
            self._params["processes"] = int(processes[1])
        elif _HEADER.match(line):
            self._open(number)
            self._columns, self._last, self._is_any = _COLUMN.findall(line), -1, True
        else:
            return bool(self._sheets) and _KNOWN.match(line) is not None
        return True

    def _row(self, cells: list[str]) -> bool:
        columns = self._columns
        values = numbers(cells)
        if values is None or not columns or len(cells) != len(columns) or not self._sheets:
            return False
        named = dict(zip(columns, values, strict=True))
        point = dict(self._params)
        size = count(cells[0]) if columns[0] == "#bytes" else None
        if columns[0] == "#bytes":
            if size is None or size < self._last:
                return False  # a row of another benchmark: here sizes rise
            self._last = size
            point["size"] = size
        scale = self._scale(named, size or 0)
        if scale is None:
            return False
        for column, value in named.items():
            self._add(self._sheets[-1], column, value, point, scale)
        return True

    def _scale(self, named: dict[str, float], size: int) -> float | None:
        """Find what the row's megabyte is, from its bytes over its time; none if it is neither."""
        rate = named.get("Mbytes/sec")
        time = named.get("t[usec]", named.get("t_max[usec]"))
        ways = WAYS.get(self._name.lower().removesuffix("specificsource"))
        if not rate or not time or ways is None:
            return MB
        expected = ways * size / time * MICRO
        fits = {scale: abs(rate * scale / expected - 1) for scale in (MB, MIB)} if expected else {}
        best = min(fits, key=lambda scale: fits[scale], default=MB)
        slack = SLACK + ROUNDING / time + ROUNDING / rate
        return best if fits.get(best, 0.0) <= slack else None

    def _add(
        self, sheet: Sheet, column: str, value: float, point: dict[str, Scalar], scale: float
    ) -> None:
        size = int(point.get("size", 0))
        name, _, unit = column.partition("[")
        if unit == "usec]" and name in _TIMES:
            sheet.add(_TIMES[name], value / MICRO, point, size=size)
        elif column == "Mbytes/sec":
            name = self._name.lower()
            one = WAYS.get(name, 1) == 1 and not name.startswith("biband")
            sheet.add(BANDWIDTH if one else BOTH_WAYS, value * scale, point, size=size)
        elif name == "overlap":
            sheet.add(OVERLAP, value, point)

    def _open(self, number: int) -> Sheet:
        if not self._sheets:
            self._sheets.append(Sheet("imb", number, "Intel MPI Benchmarks"))
        return self._sheets[-1]

    def results(self) -> tuple[Parsed, ...]:
        """Give a result per run."""
        if not self._is_any:
            return ()
        for sheet in self._sheets:
            if sheet.empty:
                sheet.fail("there is no row: it failed, or the log is cut off")
        return tuple(sheet.parsed() for sheet in self._sheets)
