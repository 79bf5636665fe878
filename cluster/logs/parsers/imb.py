"""Intel MPI Benchmarks (IMB-MPI1 and its siblings).

`t[usec]` of PingPong is one way: half of a round trip. A Mbyte is 2**20 bytes in old versions and
1e6 bytes in new ones. Size over time of each row shows which; if it fits both, the version decides.
In tables with a column of messages per second, these are of all pairs together.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from cluster.core.model.measurements import Definition
from cluster.logs.parsers import MB, MIB, Parser, ResultBuilder, count, numbers

if TYPE_CHECKING:
    from cluster.core.model.logs import Parsed
    from cluster.core.model.value import Scalar

MICRO = 1e6  # microseconds per second
SLACK = 0.02  # by which bytes over time may differ from the printed rate
ROUNDING = 0.01  # microseconds and Mbytes/sec, to which figures are printed
WAYS = {"pingpong": 1, "pingping": 1, "sendrecv": 2, "exchange": 4}  # how often bytes are counted
# How often the bytes of a row may be counted in the other tests.
MULTIPLES = (1, 2, 4)
DECIMAL = 2018  # the first version in which a megabyte is 1e6 bytes
DEFECT = 0.01  # from this value on, the received data is wrong
PAIR = 2  # processes
# Tests whose bytes pass the link between two hosts one way, or both ways. It is not known for the
# other tests: they have a metric of their own, without a bound.
ONE_WAY = {"pingpong", "uniband", "unidir_put", "unidir_get", "unibandmt", "pingpongmt"}
BOTH = {
    *("sendrecv", "exchange", "biband", "bidir_put", "bidir_get", "exchange_put", "exchange_get"),
    *("bibandmt", "sendrecvmt", "exchangemt", "birandom", "sendrecv_replace"),
}
TO_AND_FRO = {"pingpong", "pingping", "pingpongmt", "pingpingmt"}

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
PAIRS = _imb(
    metric="multi_bandwidth",
    unit="B/s",
    better="higher",
    what="bytes that all pairs send, one way, over the time of the slowest rank; printed in "
    "Mbytes/sec of 1e6 bytes",
    aggregation="all ranks",
    flow="one way",
    medium="network",
)
PAIRS_BOTH_WAYS = _imb(
    metric="multi_bidirectional",
    unit="B/s",
    better="higher",
    what="bytes that all pairs send, both ways, over the time of the slowest rank; printed in "
    "Mbytes/sec of 1e6 bytes",
    aggregation="all ranks",
    flow="both ways",
    medium="network",
)
TOTAL = _imb(
    metric="total_bandwidth",
    unit="B/s",
    better="higher",
    what="bytes over time as this test counts them, in whatever directions; printed in Mbytes/sec "
    "of 2**20 or 1e6 bytes",
    aggregation="all ranks",
)
FILES = _imb(
    metric="file_bandwidth",
    unit="B/s",
    better="higher",
    what="bytes to or from files over the time of the slowest rank (IMB-IO); printed in Mbytes/sec "
    "of 2**20 or 1e6 bytes",
    aggregation="all ranks",
)
RATE = _imb(
    metric="message_rate",
    unit="messages/s",
    better="higher",
    what="messages of all pairs together per second",
    aggregation="all ranks",
)
OVERALL = _imb(
    metric="overall_time",
    unit="s",
    better="lower",
    what="a non-blocking call and the computation beside it, of the slowest rank (t_ovrl); in us",
    aggregation="one rank",
)
PURE = _imb(
    metric="pure_time",
    unit="s",
    better="lower",
    what="a non-blocking call with nothing beside it, of the same rank (t_pure); printed in us",
    aggregation="one rank",
)
COMPUTE = _imb(
    metric="compute_time",
    unit="s",
    better="lower",
    what="the computation beside a non-blocking call, of the same rank (t_CPU); printed in us",
    aggregation="one rank",
)
OVERLAP = _imb(
    metric="overlap",
    unit="%",
    better="higher",
    what="the share of a non-blocking call that the computation hides, in percent",
    aggregation="one rank",
)
_TIMES = {
    "t_min": FASTEST,
    "t_max": SLOWEST,
    "t_avg": MEAN,
    "t_ovrl": OVERALL,
    "t_pure": PURE,
    "t_CPU": COMPUTE,
}

_START = re.compile(
    r"\s*#\s*Intel\s*\(R\) MPI Benchmarks?\b(?: Suite)?\s*(?:V?(\d+)(?:\.\d[\w.]*)?)?.*?,?\s*$"
)
_NAME = re.compile(r"\s*# Benchmarking:? ([\w-]+)\s*$")
_PROCESSES = re.compile(r"\s*#\s*#processes = (\d+)(?:.*\bthreads: (\d+))?")
_GROUPS = re.compile(r"\s*#\s*\(\s*(\d+) groups of (\d+) processes each running simultaneous")
_MODE = re.compile(r"\s*#\s*MODE: (\S+)")
_INVALID = re.compile(r"\s*#\s*!! (Benchmark \S+ (?:is )?invalid for .*?)\s*!*\s*$")
_FAILED = re.compile(
    r"\s*#?\s*(NO SUCCESSFUL EXECUTIONS|CHECK FAILURES: .*|\d+: Error \w+, ?size = \d+.*)"
)
_HEADER = re.compile(r"\s*#?\s*(?:Group\s+)?(?:#bytes\s+)?#repetitions\b")
_COLUMN = re.compile(
    r"Group|#bytes|#repetitions|(?:t\w*|overlap)\[(?:usec|%)\]|Mbytes/sec|Msg/sec|defects"
)
_UNMEASURED = re.compile(r"\s*(?:\d+\s+)?(\d+)\s+((?:out-of-mem|int-overflow|time-out)\.;.*)")
_FILE = re.compile(r"[scp]_i?(?:write|read|open)")
UNNAMED = "the name of a benchmark is missing (# Benchmarking ...)"
GAP = 2  # blank lines between benchmarks
_KNOWN = re.compile(
    r"\s*#\s*(?:-+\s*$|$|\(|\w+\s*$|Calling|List of|Date|Machine|System|Release|Version|IMB-|"
    r"MPI[ _]|Minimum|Maximum|All processes|Message lengths were|IO lengths were|Group +\d|"
    r"window_size = |For nonblocking|Function CPU_Exploit|performance of|!! Attention|\S*/IMB-)"
)


class Imb(Parser):
    """Intel MPI Benchmarks: times in us, Mbytes of 2**20 or 1e6 bytes as each row says."""

    marks: ClassVar[tuple[str, ...]] = ("MPI Benchmark", "# Benchmarking", "#repetitions")
    has_rows: ClassVar[bool] = True
    definitions: ClassVar[tuple[Definition, ...]] = (
        *(LATENCY, MEAN, FASTEST, SLOWEST, BANDWIDTH, BOTH_WAYS, PAIRS, PAIRS_BOTH_WAYS, TOTAL),
        *(FILES, RATE, OVERALL, PURE, COMPUTE, OVERLAP),
    )

    def __init__(self) -> None:
        """Begin outside any benchmark."""
        self._builders: list[ResultBuilder] = []
        self._name = ""
        self._is_unnamed = False  # the name of the benchmark is missing, and not only the head
        self._params: dict[str, Scalar] = {}
        self._columns: list[str] = []
        self._last = -1
        self._usual = MB  # a megabyte in this version
        self._next = 0  # the line after the head of a benchmark without rows so far; else 0
        self._is_mixed = False  # whether lines of another run are mixed in
        self._is_any = False  # "Benchmarking" alone may be a heading in some document

    def take(self, line: str, number: int) -> bool:
        """Read a header or a row."""
        taken = self._read(line, number)
        if taken and self._next:
            self._next = number + 1
        return taken

    def awaits(self, line: str) -> bool:
        """Tell whether a row may be the first of the open table."""
        return bool(self._next and self._columns) and len(line.split()) == len(self._columns)

    def _read(self, line: str, number: int) -> bool:
        if line.lstrip()[:1].isdigit():
            return self._row(line.split()) or self._unmeasured(line) or self._failed(line)
        start, name = _START.match(line), _NAME.match(line)
        if start or name:
            self._follow(number if name else 0, number)
        if start:
            self._builders.append(ResultBuilder("imb", number, line.strip("# \t")))
            self._is_any = True
            self._usual = MIB if start[1] and int(start[1]) < DECIMAL else MB
            if self._is_mixed:
                self._builders[-1].doubt()
        elif name:
            self._open(number)
            self._name, self._columns, self._is_unnamed = name[1], [], False
            self._params = {"test": name[1]}
        elif _HEADER.match(line):
            run = self._open(number)
            if self._columns:  # of another benchmark
                run.note(UNNAMED)
                self._name, self._is_unnamed = "", True
                self._params.pop("test", None)
            self._columns, self._last, self._is_any = _COLUMN.findall(line), -1, True
        else:
            return self._said(line)
        return True

    def _follow(self, begins: int, number: int) -> None:
        """Notice a benchmark that begins right after the head of another one without rows."""
        if self._next and number - self._next <= GAP and self._name:
            self._open(number).doubt()
            self._is_mixed = True
        self._next = begins

    def _said(self, line: str) -> bool:
        """Read a line between the name of a benchmark and its columns."""
        processes, groups, mode = _PROCESSES.match(line), _GROUPS.match(line), _MODE.match(line)
        invalid = _INVALID.match(line)
        if processes:
            self._is_any = True
            self._params["processes"] = int(processes[1])
            if processes[2]:
                self._params["threads"] = int(processes[2])
        elif groups:
            self._params |= {"groups": int(groups[1]), "processes": int(groups[2])}
        elif mode:
            self._params["mode"], self._columns = mode[1].lower(), []
        elif invalid and self._builders:
            self._next = 0
            self._builders[-1].note(invalid[1])
        elif not self._failed(line):
            return bool(self._builders) and _KNOWN.match(line) is not None
        return True

    def _failed(self, line: str) -> bool:
        failed = _FAILED.match(line) if self._builders else None
        if failed:
            self._is_any, self._next = True, 0
            self._builders[-1].fail(f"{self._name}: {failed[1].strip()}")
        return failed is not None

    def _unmeasured(self, line: str) -> bool:
        match = _UNMEASURED.match(line)
        if match and self._builders:
            self._is_any, self._next = True, 0
            name = self._name or "a benchmark"
            text = f"{name}, {match[1]} B: {match[2]}"
            # IMB stops a size that takes too long, and continues: that is not a failure.
            (self._builders[-1].note if "time-out" in match[2] else self._builders[-1].fail)(text)
        return match is not None

    def _row(self, cells: list[str]) -> bool:
        columns = self._columns
        values = numbers(cells)
        if values is None or not columns or len(cells) != len(columns) or not self._builders:
            return False
        named = dict(zip(columns, values, strict=True))
        point = dict(self._params)
        self._next = 0
        if "Group" in named:
            point["group"] = int(named.pop("Group"))
        size = 0
        if "#bytes" in named:
            found = count(cells[columns.index("#bytes")])
            if found is None or found < self._last:
                return False  # a row of another benchmark: here sizes rise
            size = point["size"] = self._last = found
        scale = self._scale(named, size)
        if scale is None:
            return False
        for column, value in named.items():
            self._add(self._builders[-1], column, value, point, scale)
        return True

    @property
    def _test(self) -> str:
        """The name of the benchmark, without the parts that all of its kind share."""
        if not self._name and "t[usec]" in self._columns and not self._is_unnamed:
            return "pingpong"  # the only test that people paste without its name
        name = self._name.lower().removeprefix("multi-")
        return name.removesuffix("specificsource").removesuffix("anysource")

    def _scale(self, named: dict[str, float], size: int) -> float | None:
        """Find the megabyte of a row from its size over its time; none if neither fits."""
        if "Msg/sec" in named:
            return MB  # this column was added after the change to 1e6 bytes
        rate = named.get("Mbytes/sec")
        time = named.get("t[usec]", named.get("t_max[usec]"))
        if not rate or not time or not size:
            return self._usual
        ways = WAYS.get(self._test)
        once = size / time * MICRO
        slack = SLACK + ROUNDING / time + ROUNDING / rate
        fits = {
            scale: min(abs(rate * scale / (many * once) - 1) for many in _multiples(ways))
            for scale in (self._usual, MB, MIB)  # if both fit, that of the version
        }
        if fits[self._usual] <= slack / 2:
            return self._usual
        best = min(fits, key=lambda scale: fits[scale])
        if fits[best] <= slack:
            return best
        return None if ways else self._usual

    def _add(
        self,
        builder: ResultBuilder,
        column: str,
        value: float,
        point: dict[str, Scalar],
        scale: float,
    ) -> None:
        size = int(point.get("size", 0))
        name, _, unit = column.partition("[")
        if unit == "usec]":
            builder.add(self._time(name), value / MICRO, point, size=size)
        elif column == "Mbytes/sec":
            builder.add(self._rate(), value * scale, point, size=size)
        elif column == "Msg/sec":
            builder.add(RATE, value, point)
        elif name == "overlap":
            builder.add(OVERLAP, value, point)
        elif column == "defects" and value > DEFECT:
            builder.fail(f"{self._name}, {size} B: {value:g} defects: what arrived is wrong")

    def _time(self, name: str) -> Definition:
        if name == "t" and "Msg/sec" in self._columns:
            return LATENCY if self._test in TO_AND_FRO else MEAN
        # `t` is the time of the slowest rank, except in ping-pong tests
        return _TIMES.get(name, LATENCY if self._test in TO_AND_FRO else SLOWEST)

    def _rate(self) -> Definition:
        test, counted = self._test, "Msg/sec" in self._columns
        if _FILE.match(test):
            return FILES
        many = counted and self._params.get("processes") != PAIR
        if test in ONE_WAY or (test == "pingping" and not counted):
            return PAIRS if many else BANDWIDTH
        if test in BOTH or test == "pingping":
            return PAIRS_BOTH_WAYS if many else BOTH_WAYS
        return TOTAL

    def _open(self, number: int) -> ResultBuilder:
        if not self._builders:
            self._builders.append(ResultBuilder("imb", number, "Intel MPI Benchmarks"))
        return self._builders[-1]

    def results(self) -> tuple[Parsed, ...]:
        """Give a result per run."""
        if not self._is_any:
            return ()
        for builder in self._builders:
            if builder.empty:
                builder.fail("there is no row: it failed, or the log is cut off")
        return tuple(builder.parsed() for builder in self._builders)


def _multiples(ways: int | None) -> tuple[int, ...]:
    return MULTIPLES if ways is None else (ways,)
