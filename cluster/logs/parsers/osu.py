"""OSU Micro-Benchmarks 3 to 7: point-to-point, collective, non-blocking and one-sided tests.

Their MB is 1e6 bytes. A latency is one-way: half of a round trip. The time of a collective is the
mean over ranks, and with `-f` also that of the fastest and the slowest rank.
"""

import re
from functools import lru_cache

from cluster.core.model.logs import Parsed
from cluster.core.model.results.measurements import Definition
from cluster.core.model.value import Scalar
from cluster.logs.parsers import (
    GB,
    MB,
    MICRO,
    ResultBuilder,
    RunParser,
    SizeColumn,
    count,
    define,
    numbers,
)

DEFINITIONS = define(
    "osu",
    """
    latency (s): half of a round trip, one way, mean over the iterations; printed in us
    time_percentile (s, mean of ranks): the percentile of the times of the iterations (option -z);
        printed in us
    one_sided_time (s): one put, get or atomic and its synchronisation, mean over iterations;
        printed in us
    init_time (s, mean of ranks): MPI_Init, mean over ranks; printed in ms
    untitled_time (s): the time of a test whose title is missing: one way, or of a whole call;
        printed in us
    collective_time (s, mean of ranks): one collective call, mean over iterations and ranks; printed
        in us
    collective_time_min (s): one collective call, mean over iterations, of the fastest rank; printed
        in us
    collective_time_max (s): one collective call, mean over iterations, of the slowest rank; printed
        in us
    overall_time (s, mean of ranks): a non-blocking collective and the computation beside it;
        printed in us
    compute_time (s, mean of ranks): the computation beside a non-blocking collective; printed in us
    pure_time (s, mean of ranks): a non-blocking collective with nothing beside it; printed in us
    overlap (%, mean of ranks): the share of a non-blocking collective that the computation hides,
        in percent
    bandwidth (B/s, one way, network): a window of messages one way, all bytes over the time;
        printed in MB/s of 1e6 bytes
    bidirectional (B/s, both ways, network): windows both ways at once, bytes of both directions;
        printed in MB/s of 1e6 bytes
    multi_bandwidth (B/s, all ranks, one way, network): windows of all pairs at once, one way,
        summed over pairs; printed in MB/s of 1e6 bytes
    message_rate (messages/s, all ranks): messages of all pairs together per second
    bandwidth_percentile (B/s): the percentile of the rates of the iterations (option -z), of which
        high ones are the best; printed in MB/s of 1e6 bytes
    untitled_bandwidth (B/s, all ranks): the rate of a test whose title is missing: in one
        direction, or in both together; printed in MB/s of 1e6 bytes
    """,
    clock="MPI_Wtime of the ranks",
    synchronisation="a barrier before each size; the iterations of a size follow one another",
    warm_up="the skipped iterations of OSU (as in osu_util.h, unless -x said otherwise)",
)
LATENCY, PERCENTILE, ONE_SIDED, INIT, UNNAMED_TIME, *_OTHERS = DEFINITIONS
COLLECTIVE, FASTEST, SLOWEST, OVERALL, COMPUTE, PURE, OVERLAP, *_RATES = _OTHERS
BANDWIDTH, BIDIRECTIONAL, MULTI, RATE, RATE_PERCENTILE, UNNAMED_RATE = _RATES


_TITLE = re.compile(
    r"[\s#]*((?:OSU|OMB)(?:-Py)? (?:One Sided |MPI|OpenSHMEM|UPC|[A-Z]+CCL|Java).*\bTests?\b.*)"
)
_UNTITLED = re.compile(r"[\s#]*# (?:Size +)?(?:Avg )?(?:Latency|Bandwidth) ?\((?:us|MB/s)\)")
_KNOWN = re.compile(
    r"#\s*(?:Datatype|Window creation|Overall =|Number of|Using|Heading)|This is a test with \d"
)
_DATATYPE = re.compile(r"#\s*Datatype:\s*(?:MPI_)?(\w+)")
_SYNCHRONISATION = re.compile(r"#\s*Synchronization:\s*(?:MPI_Win_)?(\S+)")
# Intel MPI prints at its start where each rank runs (I_MPI_DEBUG), so the hosts are known.
_STARTUP = re.compile(r"\s*(?:\[\d+\] )?MPI startup\(\): (.*)")
_PLACED = re.compile(r"(\d{1,7})\s+\d+\s+(\S+)\s+(?:\{[\d,-]*\}|[\d,-]+)\s*$")
_PAIRS = re.compile(r"\s*#?\s*\[\s*pairs:\s*(\d+)\s*\]\s*\[\s*window size:\s*(\d+|varied)")
_BUFFERS = re.compile(
    r"\s*#\s*(?:Send Buffer|Rank 0 Memory) on (\w+).*(?:Receive Buffer|Rank 1 Memory) on (\w+)"
)
# Old versions name no unit, but it is the same.
_INIT = re.compile(
    r"\s*nprocs: (\d+), min: [\d.]+(?: ms)?, max: [\d.]+(?: ms)?, avg: ([\d.]+)(?: ms)?\s*$"
)
_INVALID = re.compile(r"DATA VALIDATION ERROR: (.*)")
# The columns that `-f` adds to the mean; some builds print them without naming them in the header.
FULL = (("Min Latency", "us"), ("Max Latency", "us"), ("Iterations", ""))
PLAIN = "CHAR"  # the datatype unless said otherwise
_VARIED = re.compile(r"#\s*(?:(Uni-directional Bandwidth) \(MB/sec\)|(Message Rate) Profile)")
_FIGURE = re.compile(r"[.,]\d\d")
_WINDOWS = re.compile(r"#\s+\d+(?:\s+\d+)*$")


class Osu(RunParser):
    """OSU Micro-Benchmarks: one-way latencies in us, rates in MB/s of 1e6 bytes."""

    marks = ("OSU ", "OMB", "# Size ")
    has_rows = True
    definitions = DEFINITIONS

    def __init__(self) -> None:
        super().__init__()
        self._table: _Table | None = None
        self._hosts: dict[str, str] = {}  # of ranks

    def take(self, line: str, lineno: int) -> bool:
        if line.lstrip()[:1].isdigit():
            return self._table is not None and self._table.take(line)
        title = _TITLE.match(line) if "OSU" in line or "OMB" in line else None
        startup = _STARTUP.match(line) if "startup" in line else None
        table = self._table
        if title:
            is_mixed = table is not None and table.is_only_begun(lineno)
            table = self._next(title[1].strip(), lineno, is_mixed=is_mixed)
            table.builder.ranks = len(self._hosts)
            table.builder.hosts = len(set(self._hosts.values()))
            return True
        if startup:
            return self._start(startup[1])
        if _UNTITLED.match(line) and (table is None or table.is_done):
            table = self._next("", lineno, is_mixed=table is not None and table.is_mixed)
        if table is None or not table.take(line):
            return False
        table.lines += 1
        return True

    def awaits(self, line: str) -> bool:
        return self._table is not None and self._table.awaits(line.split())

    def _start(self, text: str) -> bool:
        if place := _PLACED.match(text):
            self._hosts[place[1]] = place[2]
        elif text.startswith("Rank "):
            self._hosts.clear()  # of the run before
        return True

    def _next(self, title: str, lineno: int, *, is_mixed: bool) -> "_Table":
        self._end()
        self._table = _Table(title, lineno)
        if is_mixed:
            self._table.doubt()
        return self._table

    def _end(self) -> None:
        if self._table is not None:
            self._runs.append(self._table.result())
        self._table = None


class _Table:
    """One test: its title, its columns, its rows."""

    def __init__(self, title: str, first: int) -> None:
        title = "" if title.count("OSU ") > 1 else title  # side by side: whose columns?
        self.builder = ResultBuilder("osu", first, title or "OSU")
        if not title:
            self.builder.lack("osu_no_title")
        self.lines = 1  # of the table, without its rows
        self._test, memory, self._one_sided = said_by(title)
        self._windows: list[int] = []  # the columns of a table with one per window size
        self._cell: Definition | None = None  # the metric of such a table
        self._params: dict[str, Scalar] = {"test": self._test} if title else {}
        if memory:
            self._params["memory"] = memory
        self._columns: tuple[tuple[str, str], ...] = ()
        self._last = -1
        self._is_unsorted = False
        self.is_mixed = False  # with lines of another table
        self._is_announced = True  # by its title, or by another datatype

    @property
    def is_done(self) -> bool:
        """Whether a header that follows belongs to another test."""
        return not self.builder.empty and not self._is_announced

    def doubt(self) -> None:
        """Record that its rows may belong to another table."""
        self.is_mixed = True
        self.builder.doubt()

    def awaits(self, cells: list[str]) -> bool:
        """Tell whether a row has its columns, and is the first one."""
        return self.builder.empty and bool(self._columns) and len(cells) == len(self._columns)

    def is_only_begun(self, lineno: int) -> bool:
        """Tell whether all lines before this one belong to its header."""
        return self.builder.empty and self.builder.first + self.lines == lineno

    def take(self, line: str) -> bool:
        text = line.strip()
        if text[:1].isdigit():
            if not (self._columns or self._windows) and self.builder.empty:
                self.doubt()  # a row of another table: this one has no columns yet
            cells = text.split()
            if len(cells) == 1 and 0 < text.count(",") == len(self._columns) - 1:  # CSV
                return self._row(text.split(","), is_typed=True)
            return self._window_row(cells) if self._windows else self._row(cells)
        if text.startswith(("#", "Size", "[ pairs", "Overall", "Avg Latency")):
            return self._header(text)
        return self._read_note(text)

    def _header(self, text: str) -> bool:
        if columns := columns_in(text):
            if (self._columns and self.builder.empty) or not fits(self._test, columns):
                self.doubt()  # the columns of another table
            self._columns, self._windows, self._last = columns, [], -1
            self._is_announced = False
            return True
        if title := _VARIED.match(text):
            self._cell, self._windows = MULTI if title[1] else RATE, []
        elif self._cell is not None and _WINDOWS.match(text):
            self._cell = None if self._windows else self._cell  # of another metric, without title
            self._windows, self._last = [int(word) for word in text.split()[1:]], -1
        elif pairs := _PAIRS.match(text):
            self._params |= {"pairs": int(pairs[1])}
        elif buffers := _BUFFERS.match(text):
            self._params |= {"buffers": f"{buffers[1]}-{buffers[2]}"}
        else:
            return self._option(text) or _KNOWN.match(text) is not None
        return True

    def _option(self, text: str) -> bool:
        datatype, synchronisation = _DATATYPE.match(text), _SYNCHRONISATION.match(text)
        if datatype:  # the same one again belongs to another test
            self._is_announced |= datatype[1] != self._params.get("datatype", PLAIN)
        if datatype and (datatype[1] != PLAIN or "datatype" in self._params):
            self._params |= {"datatype": datatype[1]}
        if synchronisation:
            self._params |= {"synchronisation": synchronisation[1]}
        return bool(datatype or synchronisation)

    def _read_note(self, text: str) -> bool:
        init, invalid = _INIT.match(text), _INVALID.match(text)
        if init:
            self.builder.add(INIT, float(init[2]) / 1e3, {**self._params, "ranks": int(init[1])})
        if invalid:
            self.builder.fail(f"{self._test}: data were wrong: {invalid[1]}")
        return bool(init or invalid or _KNOWN.match(text))

    def _window_row(self, cells: list[str]) -> bool:
        """Read a row with a column per window size."""
        size, values = count(cells[0]), numbers(cells[1:])
        expected = len(self._windows)
        if self._cell is None or size is None or values is None or len(values) != expected:
            return False
        self._is_unsorted |= size <= self._last
        self._last = size
        scale = MB if self._cell is MULTI else 1.0
        for window, value in zip(self._windows, values, strict=True):
            point = {**self._params, "window": window, "size": size}
            self.builder.add(self._cell, value * scale, point, size=size)
        return True

    def _row(self, cells: list[str], *, is_typed: bool = False) -> bool:
        columns = _columns_of(self._columns, cells)
        if len(cells) != len(columns):
            return False
        if columns[-1][0] == "Validation":
            if cells[-1].lower() not in ("pass", "passed"):
                self.builder.fail(f"{self._test}: validation of {cells[0]} B says {cells[-1]}")
            columns, cells = columns[:-1], cells[:-1]
        values = numbers(cells)
        if values is None or not (is_typed or any(map(_FIGURE.search, cells))):
            return False  # of another program: OSU prints two decimals
        params = dict(self._params)
        if columns[0][0] in SIZES:
            size = count(cells[0])
            if size is None:
                return False
            self._is_unsorted |= size <= self._last
            self._last = size
            params["size"] = size
        for index, ((name, unit), value) in enumerate(zip(columns, values, strict=True)):
            again = columns[:index].count((name, unit))  # two tests, side by side
            self._add(name, unit, value, {**params, "column": 1 + again} if again else params)
        return True

    def _add(self, name: str, unit: str, value: float, params: dict[str, Scalar]) -> None:
        if column := column_of(self._test, name, unit, one_sided=self._one_sided):
            column.add(self.builder, value, params, int(params.get("size", 0)))

    def result(self) -> Parsed:
        if self._is_unsorted:
            self.builder.clear()
            self.builder.fail(
                f"{self._test}: its sizes do not rise, so rows of several programs are mixed; "
                "none of them is used"
            )
        elif self.builder.empty and "Hello World" not in self._test:
            self.builder.lack_rows(
                f"{self._test}: there is no row; it ended before its first size",
                f"columns {', '.join(name for name, _ in self._columns) or 'under a heading'}",
            )
        return self.builder.result()


def _columns_of(
    columns: tuple[tuple[str, str], ...], cells: list[str]
) -> tuple[tuple[str, str], ...]:
    """Return the columns of a row, with the extremes if they follow its mean."""
    values = numbers(cells[len(columns) - 1 :])
    if values is None or len(values) != len(FULL) + 1 or columns[-1][0] != "Avg Latency":
        return columns
    mean, least, greatest, iterations = values
    is_full = least <= mean <= greatest and iterations.is_integer()
    return (*columns, *FULL) if is_full else columns


SIZES = ("Size", "Size (B)", "Message Size")  # how the first column is called
SCALES = {"MB/s": MB, "GB/s": GB}
MOST = 256  # titles and headers that are kept, because tests repeat them

# The library, and after a dash, the memory of the buffers: `MPI-CUDA`, `MPI_Put-CUDA`.
_NAME = re.compile(
    r"(?:OSU|OMB)(?:-Py)?\s+(?:One Sided\s+)?(?:(?:MPI|OpenSHMEM|UPC\S*)\s+)?"
    r"(.*?)\s+Tests?\b"
)
_MEMORY = re.compile(r"\b(?:MPI\w*|[NRO]CCL|OpenSHMEM)-(\w+)")
_COLUMN = re.compile(
    r"(Size(?: \(B\))?|Iterations|Validation|Messages/s|Message Size|Datatype|MB/s)(?!\s*\()"
    r"|([A-Za-z][\w. -]*?|)\s*\((us|MB/s|GB/s|%|ms)\)"
)
_HEAD = re.compile(r"[\s#]*(?:Size|Message Size|Avg|Min|Max|Latency|Overall|Pairs)\b")
TAIL = re.compile(r"P(\d+(?:\.\d+)?)\b")
# Words in the names of ping-pong tests: their latency is one way.
_ONE_WAY = {
    *("latency", "multi", "multi-threaded", "multi-process", "congestion"),
    *("persistent", "partitioned", "nccl", "rccl"),
}
_ONE_SIDED = re.compile(
    r"MPI_(?:R?Put|R?Get|Acc|Fetch|CAS|Compare)|OpenSHMEM\S* (?:Put|Get|Atomic|Non)"
    r"|UPC\S* (?:MEM|async)",
    re.IGNORECASE,
)


@lru_cache(MOST)
def said_by(title: str) -> tuple[str, str, bool]:
    """Return test that a title names, the memory of its buffers, and whether it is one-sided."""
    memory = _MEMORY.search(title)
    match = _NAME.match(title.replace(f"-{memory[1]}", "", 1) if memory else title)
    test = match[1] if match else title
    return test, memory[1] if memory else "", _ONE_SIDED.search(title) is not None


@lru_cache(MOST)
def columns_in(text: str) -> tuple[tuple[str, str], ...]:
    """Return the name and the unit of each column of a header; none if it is none."""
    columns = [(m[1] or m[2] or m[3], m[3] or "") for m in _COLUMN.finditer(text)]
    rates = any(unit or name in ("MB/s", "Messages/s") for name, unit in columns)
    return tuple(columns) if rates and _HEAD.match(text) else ()


@lru_cache(MOST)
def fits(test: str, columns: tuple[tuple[str, str], ...]) -> bool:
    """Tell whether the columns are rates if the title says so, and otherwise times."""
    rates = any(unit in SCALES or name in ("MB/s", "Messages/s") for name, unit in columns)
    overall = any(name == "Overall" for name, _ in columns)
    title = test.lower()
    if not title:
        return True
    is_rate = any(word in title for word in ("bandwidth", "bibw", "_bw", "message rate"))
    return rates == is_rate and (not overall or "non-blocking" in title or "_i" in title)


@lru_cache(MOST)
def column_of(test: str, name: str, unit: str, *, one_sided: bool) -> SizeColumn | None:
    """Return what a column measures; None if its figures are not used, or are parameters."""
    if tail := TAIL.match(name.upper()):
        more = (("percentile", float(tail[1])),)
        if unit in SCALES:
            return SizeColumn(RATE_PERCENTILE, SCALES[unit], moved=True, more=more)
        return SizeColumn(PERCENTILE, over=MICRO, more=more) if unit == "us" else None
    if unit == "us":
        time = _time(test, name.lower(), one_sided=one_sided)
        return SizeColumn(time, over=MICRO) if time else None
    if name == "Messages/s":
        return SizeColumn(RATE)
    if name == "MB/s" or unit in SCALES:
        return SizeColumn(_rate(test), SCALES.get(unit, MB), moved=True)
    return SizeColumn(OVERLAP) if unit == "%" else None


_PARTS = {
    "overall": OVERALL,
    "compute": COMPUTE,
    "pure": PURE,
    "min lat": FASTEST,
    "max lat": SLOWEST,
}


def _rate(test: str) -> Definition:
    test = test.lower()
    if not test:
        return UNNAMED_RATE
    if "bi-directional" in test or "bibw" in test:
        return BIDIRECTIONAL
    return MULTI if "multiple" in test else BANDWIDTH


def _time(test: str, name: str, *, one_sided: bool) -> Definition | None:
    """Find the metric of a column of times; parts of a non-blocking call are left out."""
    for word, definition in _PARTS.items():
        if name.startswith(word):
            return definition
    if "lat" not in name:
        return None
    if not test:
        return UNNAMED_TIME
    if one_sided:
        return ONE_SIDED
    # `Allreduce Latency` is that of a collective, `Multi Latency` is one way
    return LATENCY if set(test.lower().split()) <= _ONE_WAY else COLLECTIVE
