"""Intel MPI Benchmarks (IMB-MPI1 and its siblings).

`t[usec]` of PingPong is one way: half of a round trip. A Mbyte is 2**20 bytes in old versions and
1e6 bytes in new ones. Size over time of each row shows which; if it fits both, the version decides.
In tables with a column of messages per second, these are of all pairs together.
"""

import re

from cluster.core.model.logs import Parsed
from cluster.core.model.results.measurements import Definition
from cluster.core.model.value import Scalar
from cluster.logs.parsers import MB, MIB, MICRO, ResultBuilder, RunParser, count, define, numbers

DEFINITIONS = define(
    "imb",
    """
    latency (s): one message, one way: half of a round trip (PingPong), or one of two that cross
        (PingPing); mean over repetitions; printed in us
    call_time (s, mean of ranks): one call, mean over repetitions and ranks (t_avg); printed in us
    call_time_min (s): one call, mean over repetitions, of the fastest rank (t_min); printed in us
    call_time_max (s): one call, mean over repetitions, of the slowest rank (t_max); printed in us
    overall_time (s): a non-blocking call and the computation beside it, of the slowest rank
        (t_ovrl); in us
    pure_time (s): a non-blocking call with nothing beside it, of the same rank (t_pure); printed in
        us
    compute_time (s): the computation beside a non-blocking call, of the same rank (t_CPU); printed
        in us
    bandwidth (B/s, one way, network): bytes one way over the time; printed in Mbytes/sec of 2**20
        or 1e6 bytes
    bidirectional (B/s, both ways, network): bytes sent and received by a rank over the time of the
        slowest; printed in Mbytes/sec of 2**20 or 1e6 bytes
    multi_bandwidth (B/s, all ranks, one way, network): bytes that all pairs send, one way, over the
        time of the slowest rank; printed in Mbytes/sec of 1e6 bytes
    multi_bidirectional (B/s, all ranks, both ways, network): bytes that all pairs send, both ways,
        over the time of the slowest rank; printed in Mbytes/sec of 1e6 bytes
    total_bandwidth (B/s, all ranks): bytes over time as this test counts them, in whatever
        directions; printed in Mbytes/sec of 2**20 or 1e6 bytes
    file_bandwidth (B/s, all ranks): bytes to or from files over the time of the slowest rank
        (IMB-IO); printed in Mbytes/sec of 2**20 or 1e6 bytes
    message_rate (messages/s, all ranks): messages of all pairs together per second
    overlap (%): the share of a non-blocking call that the computation hides, in percent
    """,
    clock="MPI_Wtime of the ranks",
    synchronisation="barriers before the repetitions of a size",
    warm_up="the warm-up of IMB, some calls of each size",
)
LATENCY, MEAN, FASTEST, SLOWEST, OVERALL, PURE, COMPUTE, *_OTHERS = DEFINITIONS
BANDWIDTH, BOTH_WAYS, PAIRS, PAIRS_BOTH_WAYS, TOTAL, FILES, RATE, OVERLAP = _OTHERS

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
_WAITING = re.compile(r"\s*#\s*\(\s*(\d+) additional process(?:es)? waiting")
_GROUPS = re.compile(r"\s*#\s*\(\s*(\d+) groups of (\d+) processes each running simultaneous")
_MODE = re.compile(r"\s*#\s*MODE: (\S+)")
_INVALID = re.compile(r"\s*#\s*!! (Benchmark \S+ (?:is )?invalid for .*?)\s*!*\s*$")
_FAILED = re.compile(
    r"\s*#?\s*(NO SUCCESSFUL EXECUTIONS|CHECK FAILURES: .*|\d+: Error \w+, ?size = \d+.*)"
)
_HEADER = re.compile(r"\s*+#?\s*+(?:Group\s+)?(?:#bytes\s+)?#repetitions\b")
_COLUMN = re.compile(
    r"Group|#bytes|#repetitions|(?:t\w*|overlap)\[(?:usec|%)\]|Mbytes/sec|Msg/sec|defects"
)
_UNMEASURED = re.compile(r"\s*(?:\d+\s+)?(\d+)\s+((?:out-of-mem|int-overflow|time-out)\.;.*)")
_FILE = re.compile(r"[scp]_i?(?:write|read|open)")
GAP = 2  # blank lines between benchmarks
_KNOWN = re.compile(
    r"\s*#\s*(?:-+\s*$|$|\(|\w+\s*$|Calling|List of|Date|Machine|System|Release|Version|IMB-|"
    r"MPI[ _]|Minimum|Maximum|All processes|Message lengths were|IO lengths were|Group +\d|"
    r"window_size = |For nonblocking|Function CPU_Exploit|performance of|!! Attention|\S*/IMB-)"
)


class Imb(RunParser):
    """Intel MPI Benchmarks: times in us, Mbytes of 2**20 or 1e6 bytes as each row says."""

    marks = ("MPI Benchmark", "# Benchmarking", "#repetitions")
    has_rows = True
    title = "Intel MPI Benchmarks"
    definitions = DEFINITIONS

    def __init__(self) -> None:
        super().__init__()
        self._name = ""
        self._is_unnamed = False  # the name of the benchmark is missing, and not only the head
        self._params: dict[str, Scalar] = {}
        self._columns: list[str] = []
        self._last = -1
        self._usual = MB  # a megabyte in this version
        self._next = 0  # the line after the head of a benchmark without rows so far; else 0
        self._is_mixed = False  # whether lines of another run are mixed in
        self._is_any = False  # "Benchmarking" alone may be a heading in some document

    def take(self, line: str, lineno: int) -> bool:
        is_row = self._read(line, lineno)
        if is_row and self._next:
            self._next = lineno + 1
        return is_row

    def awaits(self, line: str) -> bool:
        return bool(self._next and self._columns) and len(line.split()) == len(self._columns)

    def _read(self, line: str, lineno: int) -> bool:
        if line.lstrip()[:1].isdigit():
            return self._row(line.split()) or self._omission(line) or self._failure(line)
        start, name = _START.match(line), _NAME.match(line)
        if start or name:
            # It may begin right after the head of another one without rows.
            if self._next and lineno - self._next <= GAP and self._name:
                self._open(lineno).doubt()
                self._is_mixed = True
            self._next = lineno if name else 0
        if start:
            run, self._is_any = self._begin(lineno, line.strip("# \t")), True
            self._usual = MIB if start[1] and int(start[1]) < DECIMAL else MB
            if self._is_mixed:
                run.doubt()
        elif name:
            self._open(lineno)
            self._name, self._columns, self._is_unnamed = name[1], [], False
            self._params = {"test": name[1]}
        elif _HEADER.match(line):
            self._header(line, lineno)
        else:
            return self._read_note(line)
        return True

    def _header(self, line: str, lineno: int) -> None:
        run = self._open(lineno)
        if self._columns:  # of another benchmark
            run.lack("imb_unnamed")
            self._name, self._is_unnamed = "", True
            self._params.pop("test", None)
        self._columns, self._last, self._is_any = _COLUMN.findall(line), -1, True
        if self._name:
            self._open_table((self._name, *self._params.items(), *self._columns), lineno)

    def _read_note(self, line: str) -> bool:
        if processes := _PROCESSES.match(line):
            self._is_any = True
            self._params["processes"] = int(processes[1])
            self._params.pop("waiting", None)
            if processes[2]:
                self._params["threads"] = int(processes[2])
        elif groups := _GROUPS.match(line):
            self._params |= {"groups": int(groups[1]), "processes": int(groups[2])}
        elif waiting := _WAITING.match(line):
            self._params["waiting"] = int(waiting[1])
        elif mode := _MODE.match(line):
            self._params["mode"], self._columns = mode[1].lower(), []
        elif self._run and (invalid := _INVALID.match(line)):
            self._next = 0
            self._run.note("quoted", invalid[1])
        elif not self._failure(line):
            return self._run is not None and _KNOWN.match(line) is not None
        return True

    def _failure(self, line: str) -> bool:
        match = _FAILED.match(line)
        if match is None or self._run is None:
            return False
        self._is_any, self._next = True, 0
        self._run.fail(f"{self._name}: {match[1].strip()}")
        return True

    def _omission(self, line: str) -> bool:
        match = _UNMEASURED.match(line)
        if match and self._run:
            self._is_any, self._next = True, 0
            name = self._name or "a benchmark"
            text = f"{name}, {match[1]} B: {match[2]}"
            # IMB stops a size that takes too long, and continues: that is not a failure.
            if "time-out" in match[2]:
                self._run.note("quoted", text)
            else:
                self._run.fail(text)
        return match is not None

    def _row(self, cells: list[str]) -> bool:
        columns = self._columns
        values = numbers(cells)
        if values is None or not columns or len(cells) != len(columns) or self._run is None:
            return False
        row = dict(zip(reversed(columns), reversed(values), strict=True))
        point = dict(self._params)
        self._next = 0
        if "Group" in row:
            point["group"] = int(row.pop("Group"))
        size = 0
        if "#bytes" in row:
            row_size = count(cells[columns.index("#bytes")])
            if row_size is None or row_size < self._last:
                return False  # a row of another benchmark: here sizes rise
            size = point["size"] = self._last = row_size
        scale = self._scale(row, size)
        if scale is None:
            return False
        for index, (column, value) in enumerate(zip(columns, values, strict=True)):
            again = columns[:index].count(column)  # of another test, side by side with this one
            other = {**point, "column": 1 + again} if again else point
            self._add(self._run, column, value, other, scale)
        return True

    @property
    def _test(self) -> str:
        """The name of the benchmark, without the parts that all of its kind share."""
        if not self._name and "t[usec]" in self._columns and not self._is_unnamed:
            return "pingpong"  # the only test that people paste without its name
        name = self._name.lower().removeprefix("multi-")
        return name.removesuffix("specificsource").removesuffix("anysource")

    def _scale(self, row: dict[str, float], size: int) -> float | None:
        """Find the megabyte of a row from its size over its time; none if neither fits."""
        if "Msg/sec" in row:
            return MB  # this column was added after the change to 1e6 bytes
        rate = row.get("Mbytes/sec")
        time = row.get("t[usec]", row.get("t_max[usec]"))
        if not rate or not time or not size:
            return self._usual
        ways = WAYS.get(self._test)
        multiples = (ways,) if ways else MULTIPLES
        once = size / time * MICRO
        slack = SLACK + ROUNDING / time + ROUNDING / rate
        fits = {
            scale: min(abs(rate * scale / (multiple * once) - 1) for multiple in multiples)
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
        pair = self._params.get("processes") == PAIR
        kind = _kind(self._test, column, has_messages="Msg/sec" in self._columns, pair=pair)
        if kind and kind.unit == "s":
            builder.add(kind, value / MICRO, point, size=size)
        elif kind and kind.unit == "B/s":
            builder.add(kind, value * scale, point, size=size)
        elif kind:
            builder.add(kind, value, point)
        elif column == "defects" and value > DEFECT:
            builder.fail(f"{self._name}, {size} B: {value:g} defects: what arrived is wrong")

    def results(self) -> tuple[Parsed, ...]:
        return super().results() if self._is_any else ()


def _kind(test: str, column: str, *, has_messages: bool, pair: bool) -> Definition | None:
    """Return the metric of a column; `has_messages` if there is one of messages per second."""
    name, _, unit = column.partition("[")
    if unit == "usec]":
        if name == "t" and has_messages:
            return LATENCY if test in TO_AND_FRO else MEAN
        # `t` is the time of the slowest rank, except in ping-pong tests
        return _TIMES.get(name, LATENCY if test in TO_AND_FRO else SLOWEST)
    if column == "Mbytes/sec":
        return _rate(test, has_messages=has_messages, pair=pair)
    if column == "Msg/sec":
        return RATE
    return OVERLAP if name == "overlap" else None


def _rate(test: str, *, has_messages: bool, pair: bool) -> Definition:
    is_multi = has_messages and not pair
    if _FILE.match(test):
        return FILES
    if test in ONE_WAY or (test == "pingping" and not has_messages):
        return PAIRS if is_multi else BANDWIDTH
    if test in BOTH or test == "pingping":
        return PAIRS_BOTH_WAYS if is_multi else BOTH_WAYS
    return TOTAL
