"""nccl-tests: all_reduce_perf and its siblings, old and new columns, text and JSON.

GB is 1e9 bytes. A row is one size: time, algorithm bandwidth (size over time) and bus bandwidth
(algorithm bandwidth times a factor of the collective and the number of ranks: what one link must
carry), each out of place and in place. Figures are means over iterations and over all ranks.
Until 2019, times were printed in ms.

A row is printed in parts, before and after its runs; with NCCL_DEBUG=INFO, NCCL's lines come
between them. Such parts are put together again, and believed if their arithmetic holds.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import msgspec

from cluster.core.model.measurements import Definition
from cluster.logs.parsers import GB, Parser, ResultBuilder, count, number, numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.core.model.logs import Parsed
    from cluster.core.model.value import Scalar

MICRO, MILLI = 1e6, 1e3  # of them are one
ABSENT = "N/A"  # a cell without a value
HALF = 4  # columns of each half of a row, counted from the right: time algbw busbw error
MOST_RANKS = 1024  # of a process: more is no sane figure
LEAST = 3  # columns before them: size, count, type
RESOLUTION = 0.01  # GB/s, to which rates are printed
COARSE = 0.05  # by which times of 10 s and more are rounded: they are printed as 1.7e+07
SLACK = 0.02  # by which a printed rate may differ from bytes over the printed time

ALONE = (
    "its processes did not find each other: each ran a test of its own, as nccl-tests does that "
    "was built without MPI=1"
)
PARTIAL = (
    "its algorithm bandwidth was printed as (n-1)/n of size over time: it is size over time here, "
    "as in all other tests"
)

_nccl = partial(
    Definition,
    benchmark="nccl_tests",
    clock="std::chrono of each process, around all iterations and the synchronisation of streams",
    synchronisation="a barrier of all processes before the iterations of a size",
    warm_up="the warmup iters of the log's first line (5 unless said otherwise)",
    aggregation="mean of ranks",
)
TIME = _nccl(
    metric="time",
    unit="s",
    better="lower",
    what="one collective call, mean over iterations and ranks; printed in us",
)
ALGBW = _nccl(
    metric="algbw",
    unit="B/s",
    better="higher",
    what="algorithm bandwidth: the size over the time; printed in GB/s of 1e9 bytes, to 0.01",
)
BUSBW = _nccl(
    metric="busbw",
    unit="B/s",
    better="higher",
    what=(
        "bus bandwidth: algorithm bandwidth times 2(n-1)/n (all_reduce), (n-1)/n (all_gather, "
        "reduce_scatter, alltoall, gather, scatter) or 1 (broadcast, reduce, sendrecv) of n ranks: "
        "what the slowest link carries per direction; printed in GB/s of 1e9 bytes, to 0.01"
    ),
    flow="one way",
    medium="collective",
)

_START = re.compile(r"#?\s*(nThreads?:?\s+\d+\s|nccl-tests version|Collective test starting:)")
_NAME = re.compile(r"#?\s*Collective test starting:\s*(\S+)")
_RANK = re.compile(
    r"#?\s*Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?(?:Pid\s+\d+\s+)?on\s+(\S+)\s+device\s+(\d+)"
    r"(?:\s+\[\w+(?::\w+)*(?:\.\d)?\]\s+(\S.*))?"
)
_FOOT = re.compile(r"#?\s*(Out of bounds values|Bitwise mismatches|Avg bus bandwidth)\s*:\s*(.*)")
_KNOWN = re.compile(
    r"#\s*(?:$|-+$|\(B\)|out-of-place|Using devices|Collective test concluded|NCCL version|"
    r"Blocking|Parallel Init|Per-Iteration|Writing JSON|GPU memory|NCCL Tests compiled with|"
    r"Errors with asterisks)|"
    r"\(B\)\s+\(elements\)|out-of-place\s+in-pl|rccl-tests: Version",
)
_FAILED = re.compile(
    r".*: Test (?:NCCL|CUDA|HIP|MPI) failure|.*: Test failure |# error: \S|"
    r"(?:NCCL|Cuda|CUDA|HIP) failure (?!\S*p2pBandwidth)\S+:\d+|Invalid number of GPUs"
)
_HEAD = re.compile(r"\d+\s+\d+\s+[a-z]\w*(?:\s+[a-z]\w*)?(?:\s+-?\d+)?")  # of a row
_COMMENTED = re.compile(r"#\s*\d+\s+\d+\s+[a-z]")
_COUNTS = re.compile(r"\bbusbw #?(?:wrong|err|res)")  # wrong values, in the last column of a half
_UNITS = re.compile(r"\([^)|]*\)")
_RULE = re.compile(r"[|\s:-]+$")
# What is a row but for something that stands around its columns.
_HIDDEN = re.compile(
    r"\b\d+\W+\d+\W+(?:u?int\d*|float\w*|half|double|bfloat16|f(?:p)?8\w*)\W.*?\d\.\d\d\b"
)
# A part of a row, and behind it a line of NCCL, which may begin with a label or the time.
_TORN = re.compile(
    r"^ +(\d+ +\d+ +[a-z]\w* +(?:[a-z]\w* +)?(?:-1|0|\d+)"
    r"|[\d.e+]+ +[\d.e+]+ +[\d.e+]+ +(?:N/A|0|\d+))"
    r" *(?=(?:\[[^]\n]{1,40}\] ?)?[A-Za-z0-9<][\w.<>-]*:\d+:\d+ \[\d+\] NCCL )",
    re.MULTILINE,
)
_COMMAND = re.compile(r"(?:^|[\s/])(\w+_perf(?:_mpi)?)\s+-")
_STAMP = re.compile(r"\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")
_TIMES = ("time", "cputime")
_OLDEST = "res"  # a column of NCCL's own tests and of nccl-tests until 2019: times are in ms
ALL_REDUCE = "all_reduce"
_OPERATIONS = {
    **{name.replace("_", ""): name for name in (ALL_REDUCE, "all_gather", "reduce_scatter")},
    **{name: name for name in ("broadcast", "reduce", "alltoall", "gather", "scatter")},
    "sendrecv": "sendrecv",
}
SHARED, WHOLE = "all_gather, reduce_scatter or alltoall", "broadcast, reduce or sendrecv"
_FACTORS = (
    (ALL_REDUCE, lambda n: 2 * (n - 1) / n),
    (SHARED, lambda n: (n - 1) / n),
    (WHOLE, lambda _: 1.0),
)
_FAMILIES = {
    ALL_REDUCE: ALL_REDUCE,
    **dict.fromkeys(("all_gather", "reduce_scatter", "alltoall", "gather", "scatter"), SHARED),
    **dict.fromkeys(("broadcast", "reduce", "sendrecv"), WHOLE),
}


class NcclTests(Parser):
    """nccl-tests: time, algorithm and bus bandwidth per size, out of place and in place."""

    marks: ClassVar[tuple[str, ...]] = (
        *("algbw", "nccl-tests", "nThread", "Avg bus bandwidth", "out_of_place"),
        *("Test NCCL failure", "NCCL failure"),
    )
    mends: ClassVar[bool] = True
    definitions: ClassVar[tuple[Definition, ...]] = (TIME, ALGBW, BUSBW)

    def __init__(self) -> None:
        """Begin outside any test."""
        self._tests: list[_Test] = []
        self._command = ""
        self._parts: list[tuple[int, list[str]]] = []  # of rows, and their lines
        self._boxed = False  # the last line was of a Markdown table with our header

    def take(self, line: str, number: int) -> bool:
        """Read a row, or what stands around the rows."""
        text = line.strip()
        if not text or "NCCL INFO" in text:
            return False
        if text[0] == text[-1] == "|":
            return self._markdown(text, number)
        self._boxed = False
        if text[:1].isdigit() or _COMMENTED.match(text):
            return self._row(text.lstrip("# "), number)
        if _START.match(text):
            self._begin(text, number)
            return True
        if "algbw" in text and "busbw" in text:
            self._open(number).header(text)
            return True
        command = _COMMAND.search(text)
        if command:
            self._command = command[1]
        return bool(command or _KNOWN.match(text)) or self._around(text, number)

    def _markdown(self, text: str, number: int) -> bool:
        """Read a line of a Markdown table; those of other programs have no such rows."""
        if "algbw" in text and "busbw" in text:
            self._boxed = True
            names = " ".join(_cells(_UNITS.sub("", text)))
            self._open(number).header(names, counts=_COUNTS.search(names) is not None)
            return True
        if not self._tests or (not self._boxed and "|" not in text[1:-1]):
            return False
        cells = _cells(text)
        if self._tests[-1].row(cells):
            return True
        if self._boxed and cells[0][:1].isdigit():
            self._tests[-1].refused += 1
            return False
        return self._boxed and _RULE.match(text) is not None

    def skim(self, text: str, number: int) -> tuple[str, int]:
        """Take parts of rows from before the lines that tore them."""
        if "NCCL INFO" not in text or not (text[:1].isspace() or "\n " in text):
            return text, 0
        rest, at = [], 0
        for part in _TORN.finditer(text):
            number += text.count("\n", at, part.start())
            self._parts.append((number, part[1].split()))
            rest.append(text[at : part.start()])
            at = part.end()
        return "".join((*rest, text[at:])), 0

    def _row(self, text: str, number: int) -> bool:
        """Read a row, or what is left of a torn one: its last part, or only its first."""
        test, cells = self._open(number), _STAMP.sub("", text).split()
        if test.row(cells) or test.row([*self._torn(number), *cells]):
            self._parts = [part for part in self._parts if part[0] > number]
            return True
        if _HEAD.fullmatch(text):
            self._parts.append((number, cells))
            return True
        test.refused += 1
        return False

    def _torn(self, number: int) -> list[str]:
        """Give the cells of the row that began last, before a line."""
        parts = [cells for at, cells in self._parts if at < number]
        heads = [at for at, cells in enumerate(parts) if _HEAD.fullmatch(" ".join(cells))]
        return [cell for part in parts[heads[-1] :] for cell in part] if heads else []

    def _around(self, text: str, number: int) -> bool:
        if not self._tests and (_RANK.match(text) or _FAILED.match(text)):
            self._open(number)  # the log begins behind its head
        return bool(self._tests) and (self._tests[-1].take(text) or self._hides(text))

    def _hides(self, text: str) -> bool:
        """Notice a row that cannot be read, for something stands around its columns."""
        if _HIDDEN.search(text):
            self._tests[-1].hidden = self._tests[-1].hidden or text
        return False

    def take_document(self, text: str, number: int) -> bool:
        """Read what `-J` wrote."""
        try:
            found = msgspec.json.decode(text, type=_Json)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return False
        test = _Test(number)
        found.fill(test)
        self._tests.append(test)
        return True

    def results(self) -> tuple[Parsed, ...]:
        """Give a result per test."""
        if self._tests and (begun := self._torn(sys.maxsize)):
            self._tests[-1].stopped = int(begun[0])
        return tuple(test.parsed() for test in self._tests if test.is_any)

    def _open(self, number: int) -> _Test:
        if not self._tests:
            self._tests.append(_Test(number))
        return self._tests[-1]

    def _begin(self, text: str, number: int) -> None:
        """Begin a test, unless the one that has just begun is still at its head."""
        if not self._tests or self._tests[-1].is_begun:
            self._tests.append(_Test(number))
        named = _NAME.match(text)
        test = self._tests[-1]
        test.headed = True
        test.name = named[1] if named else test.name or self._command
        self._command = ""  # of the next test, another
        test.checked &= "validation: 0" not in text


class _Test:
    """One test: its rows, and what its head and foot say."""

    def __init__(self, first: int) -> None:
        self._first = first
        self.name = ""
        self.checked = True
        self.headed = False
        self.ended = False
        self.ranks: dict[int, tuple[str, int]] = {}  # the host of each, and its device there
        self.models: dict[str, None] = {}
        self._rows: list[tuple[dict[str, Scalar], list[float]]] = []
        self._width = HALF
        self._counts = True  # the last column of a half counts wrong values
        self._scale = MICRO  # of its times
        self._alone = False  # each process ran a test of its own
        self._partial = False  # algorithm bandwidth was printed without the part of each rank
        self.refused = 0  # rows that contradict themselves
        self.hidden = ""  # the first line that would be a row, but for what stands around it
        self.stopped = -1  # size of the row that was begun last, and never ended
        self._failures: list[str] = []

    @property
    def hosts(self) -> int:
        """How many hosts there are; containers may have one name, but a device is there once."""
        if self._alone:
            return 1
        names = {host for host, _ in self.ranks.values()}
        places = Counter(self.ranks.values())
        return max(len(names), max(places.values(), default=0))

    @property
    def count(self) -> int:
        """How many ranks there are; 0 if the log does not say."""
        return len(self.ranks)

    @property
    def is_begun(self) -> bool:
        return bool(self._rows or self.ended)

    @property
    def is_any(self) -> bool:
        return bool(self.headed or self.is_begun or self._failures)

    def header(self, text: str, *, counts: bool = True) -> None:
        """Find how wide each half of a row is; options add columns to it.

        Args:
            text: the names of the columns.
            counts: the fourth column of a half counts wrong values.

        """
        self.headed = True
        self._counts = counts
        words = text.lstrip("# ").split()
        starts = [at for at, word in enumerate(words) if word in _TIMES]
        ends = [*starts[1:2], *([len(words)] if words[-1:] == ["busbw"] else [])]
        self._width = ends[0] - starts[0] if starts and ends else HALF
        self._scale = MILLI if _OLDEST in words else MICRO

    def take(self, text: str) -> bool:
        rank, foot = _RANK.match(text), _FOOT.match(text)
        if rank:
            self._alone |= int(rank[1]) in self.ranks
            self.ranks[int(rank[1])] = rank[2], int(rank[3])
            if rank[4]:
                self.models[rank[4]] = None
        elif foot:
            self.ended = True
            if "FAILED" in foot[2]:
                self.fail(text.lstrip("# "))
        elif _FAILED.match(text):
            self.fail(text.lstrip("# "))
        else:
            return False
        return True

    def fail(self, text: str) -> None:
        self._failures.append(text)

    def row(self, cells: list[str]) -> bool:
        """Read a row from the right, for the columns in its middle come and go."""
        width = self._width
        places = ("out", "in") if len(cells) >= LEAST + 2 * width else ("out",)
        head = len(cells) - len(places) * width
        size, elements = count(cells[0]), count(cells[1]) if len(cells) > 1 else None
        if head < LEAST or size is None or elements is None or number(cells[2]) is not None:
            return False
        halves = [cells[head + at * width :][: min(width, HALF)] for at in range(len(places))]
        figures = [self._figures(size, half) for half in halves]
        if not all(figures):
            return False
        redop = cells[3] if head > LEAST and number(cells[3]) is None else ""  # or the root
        for place, half, found in zip(places, halves, figures, strict=True):
            wrong = half[3] if self._counts and len(half) == HALF else ABSENT
            self.add(size, (cells[2], redop, place), found or [], wrong)
        return True

    def _figures(self, size: int, half: list[str]) -> list[float] | None:
        """Read time (in us), algorithm and bus bandwidth, if they agree with the size.

        hypercube_perf, and until 2020 all_gather_perf and reduce_scatter_perf, count without the
        part that each rank has already: both bandwidths are what is the bus bandwidth elsewhere.
        """
        found = numbers(half[:3])
        if not found:
            return None
        time, algbw, busbw = found[0] * MICRO / self._scale, found[1], found[2]
        part, slack = 1 - 1 / max(2, self.count), COARSE if "e" in half[0] else SLACK
        if _agrees(size, [time, algbw, busbw], slack):
            return [time, algbw, busbw]
        if self.count > 1 and algbw == busbw and _agrees(size * part, [time, algbw, busbw], slack):
            self._partial = True
            return [time, algbw / part, busbw]
        return None

    def add(self, size: int, kind: tuple[str, str, str], values: list[float], wrong: str) -> None:
        """Add half a row; its last column counts wrong values, or is an error such as 1e-06."""
        type_, redop, place = kind
        params: dict[str, Scalar] = {"size": size, "place": place, "type": type_}
        if redop not in ("", "none", ABSENT):
            params["redop"] = redop
        self._rows.append((params, values))
        many = number(wrong)
        if many is not None and many >= 1:
            self.fail(f"{size} B, {place} of place: {many:.0f} values were wrong")

    def parsed(self) -> Parsed:
        sheet = ResultBuilder("nccl_tests", self._first, self.name or "nccl-tests")
        for failure in self._failures:
            sheet.fail(failure)
        for params, (time, algbw, busbw) in self._rows:
            size = int(params["size"])
            sheet.add(TIME, time / MICRO, params, size=size)
            sheet.add(ALGBW, algbw * GB, params, size=size)
            sheet.add(BUSBW, busbw * GB, params, size=size)
        self._say(sheet)
        return sheet.parsed()

    def _say(self, sheet: ResultBuilder) -> None:
        ranks = sheet.ranks = self.count
        sheet.hosts = self.hosts
        for model in self.models:
            sheet.on(model)
        if ranks:
            sheet.note(f"{ranks} rank(s) on {sheet.hosts} host(s)")
        family = self._family(ranks)
        if family:
            sheet.note(f"its bus bandwidth is that of {family} on {ranks} ranks")
        sheet.operation = self._operation(family)
        for applies, text in self._oddities():
            if applies:
                sheet.note(text)
        self._end(sheet)

    def _end(self, sheet: ResultBuilder) -> None:
        """Say what is missing."""
        if sheet.empty and self.refused:
            sheet.fail(
                f"none of its {self.refused} row(s) has size, count, type, time, algbw and busbw "
                "that agree with one another in B, us and GB/s"
            )
        elif sheet.empty and self.hidden:
            sheet.fail(
                "its rows cannot be read, for something stands around their columns: take it away "
                f"({self.hidden[:60]!r})"
            )
        elif sheet.empty:
            sheet.fail("there is no row: it ended before its first size")
        elif not self.ended:
            sheet.note("its last lines are missing: it was stopped, or the log is cut off")

    def _oddities(self) -> Iterable[tuple[bool, str]]:
        """Give what may be odd about it, and whether it is."""
        yield not self.checked, "its data were not checked (validation: 0)"
        yield self._alone, ALONE
        yield self.count == 1 and bool(self._rows), "of one rank alone: nothing passed between GPUs"
        yield self._partial, PARTIAL
        yield self.stopped >= 0, f"its row of {self.stopped} B was begun, and has no end"

    def _operation(self, family: str) -> str:
        """Tell the collective from the program's name, unless its own factor contradicts it."""
        named = self.name.removesuffix("_mpi").removesuffix("_perf").lower()
        operation = _OPERATIONS.get(named.replace("_", ""), "")
        if not family or _FAMILIES.get(operation) == family:
            return operation
        return ALL_REDUCE if family == ALL_REDUCE else ""

    def _family(self, ranks: int) -> str:
        """Tell the collective from the factor between its two bandwidths."""
        algbw, busbw = max(((v[1], v[2]) for _, v in self._rows), default=(0.0, 0.0))
        if ranks < 3 or algbw < 100 * RESOLUTION:  # noqa: PLR2004 - of two, factors are the same
            return ""
        fits = (f for f, factor in _FACTORS if abs(busbw / algbw - factor(ranks)) < SLACK)
        return next(fits, "")


def _cells(text: str) -> list[str]:
    """Give the cells of a row of a Markdown table, without its marks for bold and code."""
    return [cell.strip(" \t*`") or ABSENT for cell in text[1:-1].split("|")]


def _agrees(size: float, values: list[float], slack: float) -> bool:
    """Check a row by its own arithmetic: torn or shifted columns do not pass."""
    time, algbw, busbw = values
    if min(values) < 0 or busbw > 2 * algbw + 2 * RESOLUTION:
        return False
    expected = size / time * MICRO / GB if time else 0.0
    return abs(algbw - expected) <= RESOLUTION + slack * expected


class _Half(msgspec.Struct):
    """Half a row of the JSON of `-J`; what is no number is the word `nan`."""

    alg_bw: float | str
    bus_bw: float | str
    time: float | str | None = None
    cpu_time: float | str | None = None
    nwrong: float | str | None = None

    @property
    def figures(self) -> list[float] | None:
        """Time, algorithm and bus bandwidth; none if one of them is no number."""
        time = self.time if self.time is not None else self.cpu_time or 0.0
        return numbers(map(str, (time, self.alg_bw, self.bus_bw)))


class _Row(msgspec.Struct):
    """A row of it."""

    size: int
    type: str = ""
    redop: str = ""
    out_of_place: _Half | None = None
    in_place: _Half | None = None


class _Process(msgspec.Struct):
    """A process of it, by its first rank."""

    rank: int
    hostname: str = ""
    device: int = 0
    device_info: str = ""


class _Config(msgspec.Struct):
    """The head of it."""

    nthreads: int = 1
    ngpus: int = 1
    validation: int = 1
    devices: list[_Process] = []


class _Outcome(msgspec.Struct):
    """A verdict of it."""

    count: int = 0
    bandwidth: float | str = 0.0
    okay: str = ""


class _Json(msgspec.Struct):
    """What we read of it."""

    results: list[_Row]
    args: list[str] = []
    config: _Config = msgspec.field(default_factory=_Config)
    out_of_bounds: _Outcome = msgspec.field(default_factory=_Outcome)
    average_bus_bandwidth: _Outcome = msgspec.field(default_factory=_Outcome)
    errors: list[str] = []

    def fill(self, test: _Test) -> None:
        """Give a test all of it."""
        test.headed = test.ended = True
        test.name = (self.args or [""])[0].rpartition("/")[2]
        test.checked = bool(self.config.validation)
        self._place(test)
        for error in self._failures():
            test.fail(error)
        for row in self.results:
            for place, half in (("out", row.out_of_place), ("in", row.in_place)):
                if half is not None and (figures := half.figures):
                    test.add(row.size, (row.type, row.redop, place), figures, str(half.nwrong))

    def _place(self, test: _Test) -> None:
        """Name all ranks: the file has the first of each process only."""
        each = self.config.nthreads * self.config.ngpus
        for process in self.config.devices:
            for at in range(min(each, MOST_RANKS)):
                test.ranks[process.rank + at] = process.hostname, process.device + at
            if process.device_info:
                test.models[process.device_info] = None

    def _failures(self) -> Iterable[str]:
        yield from (error for error in self.errors if error.strip())
        if self.out_of_bounds.okay == "false":
            yield f"Out of bounds values : {self.out_of_bounds.count} FAILED"
        if self.average_bus_bandwidth.okay == "false":
            yield f"Avg bus bandwidth : {self.average_bus_bandwidth.bandwidth} FAILED"
