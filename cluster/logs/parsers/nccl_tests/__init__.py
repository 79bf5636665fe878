"""nccl-tests: all_reduce_perf and its siblings, old and new columns, text and JSON.

GB is 1e9 bytes. A row is one size: time, algorithm bandwidth (size over time) and bus bandwidth
(algorithm bandwidth times a factor of the collective and the number of ranks: what one link must
carry), each out of place and in place. Figures are means over iterations and over all ranks.
Until 2019, times were printed in ms.

A row is printed in parts, before and after its runs; with NCCL_DEBUG=INFO, NCCL's lines may come
in between. Such parts are joined again, and accepted if their figures agree with one another.
"""

import re

import msgspec

from cluster.core.model.logs import Parsed
from cluster.logs.parsers import Parser, decode, numbers
from cluster.logs.parsers.nccl_tests import perf_test

_START = re.compile(r"#?\s*(nThreads?:?\s+\d+\s|nccl-tests version|Collective test starting:)")
_NAME = re.compile(r"#?\s*Collective test starting:\s*(\S+)")
_KNOWN = re.compile(
    r"#\s*(?:$|-+$|\(B\)|out-of-place|Using devices|NCCL version|"
    r"Blocking|Parallel Init|Per-Iteration|Writing JSON|GPU memory|NCCL Tests compiled with|"
    r"Errors with asterisks)|"
    r"\(B\)\s+\(elements\)|out-of-place\s+in-pl|rccl-tests: Version"
)
_HEAD = re.compile(r"\d+\s+\d+\s+[a-z]\w*(?:\s+[a-z]\w*)?(?:\s+-?\d+)?")  # of a row
_COMMENTED = re.compile(r"#\s*\d+\s+\d+\s+[a-z]")
_COLUMN = (
    r"(?:#[A-Za-z]\w*|(?:bytes|size|N|count|type|op|redop|root|wrong|errors?|res|time|cputime|algbw"
    r"|busbw|timestamp)\b)(?:\([^)]*\))?"
)
_COLUMNS = re.compile(  # no prose: around the three are only numbers and other columns
    rf"[^A-Za-z#]*(?:#[^A-Za-z#]*)*(?:{_COLUMN}[^A-Za-z#]+)*?(?:cpu)?time\s+algbw\s+busbw\b"
    rf"(?:[^A-Za-z#]+{_COLUMN})*[^A-Za-z#]*$"
)
_COUNTS = re.compile(r"\bbusbw #?(?:wrong|err|res)")  # wrong values, in the last column of a half
_UNITS = re.compile(r"\([^)|]*\)")
_RULE = re.compile(r"[|\s:-]+$")
# A row with other text around its columns.
_HIDDEN = re.compile(
    r"\b\d+\W+\d+\W+(?:u?int\d*|float\w*|half|double|bfloat16|f(?:p)?8\w*)\W.*?\d\.\d\d\b"
)
# A part of a row, followed by a line of NCCL, which may begin with a label or the time.
_TORN = re.compile(
    r" +(\d+ +\d+ +[a-z]\w* +(?:[a-z]\w* +)?(?:-1|0|\d+)"
    r"|[\d.e+]+ +[\d.e+]+ +[\d.e+]+ +(?:N/A|0|\d+))"
    r" *(?=(?:\[[^]\n]{1,40}\] ?)?[A-Za-z0-9<][\w.<>-]*:\d+:\d+ \[\d+\] NCCL )"
)
INFO = "NCCL INFO"
_COMMAND = re.compile(r"(?:^|[\s/])(\w+_perf(?:_mpi)?)\s+-")
MOST_PARTS = 16  # of rows: three make a row
_STAMP = re.compile(r"\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")


class NcclTests(Parser):
    """nccl-tests: time, algorithm and bus bandwidth per size, out of place and in place."""

    marks = (
        *("algbw", "nccl-tests", "nThread", "Avg bus bandwidth", "Out of bounds", "out_of_place"),
        *("Test NCCL failure", "NCCL failure", " float ", " half ", " bfloat16 "),
    )
    rows_interrupted = True
    definitions = (perf_test.TIME, perf_test.ALGBW, perf_test.BUSBW, perf_test.AVERAGE)

    def __init__(self) -> None:
        self._results: list[Parsed] = []  # of the tests before the last
        self._test: perf_test.PerfTest | None = None
        self._command = ""
        self._parts: list[list[str]] = []  # parts of rows that other lines interrupted
        self._is_boxed = False  # whether the last line belongs to a Markdown table with our header

    def take(self, line: str, lineno: int) -> bool:
        text = line.strip()
        if not text or INFO in text:
            return False
        if text[0] == text[-1] == "|":
            return self._markdown(text, lineno)
        self._is_boxed = False
        if text[:1].isdigit() or _COMMENTED.match(text):
            return self._row(text.lstrip("# "), lineno)
        is_known = self._read_note(text, lineno) or _KNOWN.match(text) is not None
        return is_known or self._frame(text, lineno)

    def _read_note(self, text: str, lineno: int) -> bool:
        if self._test is not None and self._test.is_headed and text.startswith(perf_test.ENDS):
            return self._test.take(text)
        if _START.match(text):
            self._begin(text, lineno)
            return True
        if _COLUMNS.match(text):
            # read the names of the columns; below rows, they are those of the next test
            test = self._test
            if test is not None and test.is_begun and test.headers:
                test = self._new(lineno)
                test.follows = True
            (test or self._open(lineno)).header(text)
            return True
        if "_perf" in text and (command := _COMMAND.search(text)):
            self._command = command[1]
            return True
        return False

    def _markdown(self, text: str, lineno: int) -> bool:
        """Read a line of a Markdown table; tables of other programs have no such rows."""
        whole = all(name in text for name in ("algbw", "busbw", "time"))  # else it was retyped
        if whole and "payload" not in text:  # of all_reduce_bench
            self._is_boxed = True
            names = " ".join(_cells(_UNITS.sub("", text)))
            self._open(lineno).header(names, counts=_COUNTS.search(names) is not None)
            return True
        if self._test is None or (not self._is_boxed and "|" not in text[1:-1]):
            return False
        cells = _cells(text)
        if self._test.row(cells):
            return True
        if self._is_boxed and cells[0][:1].isdigit():
            self._test.rejects += 1
            return False
        return self._is_boxed and _RULE.match(text) is not None

    def look(self, line: str, lineno: int) -> str:
        """Take a part of a row that a line of NCCL follows."""
        part = _TORN.match(line) if line[:1] == " " and INFO in line else None
        if part is None:
            return line
        self._keep(part[1].split())
        return line[part.end() :]

    def _keep(self, cells: list[str]) -> None:
        self._parts = [*self._parts[1 - MOST_PARTS :], cells]

    def _row(self, text: str, lineno: int) -> bool:
        """Read a row, or what is left of a torn row: its last part, or only its first."""
        test, cells = self._open(lineno), _STAMP.sub("", text).split()
        if test.ends_before(cells) and perf_test.PerfTest(lineno).row(cells):
            test = self._new(lineno)
            test.follows = True
        if test.row(cells) or test.row([*self._open_cells(), *cells]):
            self._parts = []
            return True
        if _HEAD.fullmatch(text):
            self._keep(cells)
            return True
        test.rejects += 1
        return False

    def _open_cells(self) -> list[str]:
        """Return the cells of the row that began last."""
        heads = [i for i, cells in enumerate(self._parts) if _HEAD.fullmatch(" ".join(cells))]
        return [cell for part in self._parts[heads[-1] :] for cell in part] if heads else []

    def _frame(self, text: str, lineno: int) -> bool:
        forms = (perf_test.RANK, perf_test.FAILED, perf_test.FOOT)
        if self._test is None and any(form.match(text) for form in forms):
            self._open(lineno)  # the log begins after its head
        elif self._test and self._test.is_mean_alone and perf_test.AVERAGE_LINE.match(text):
            self._new(lineno)  # the last line of another test
        if self._test is None or self._test.take(text, lineno):
            return self._test is not None
        if _HIDDEN.search(text):
            self._test.hidden = self._test.hidden or text
        return False

    def take_document(self, text: str, lineno: int) -> bool:
        if report := decode(text, NcclJsonReport):
            report.fill(self._new(lineno))
        return report is not None

    def results(self) -> tuple[Parsed, ...]:
        if self._test is not None and (row := self._open_cells()):
            self._test.open_size = int(row[0])
        self._end()
        return tuple(self._results)

    def _end(self) -> None:
        if self._test is not None and self._test.is_any:
            self._results.append(self._test.result())
        self._test = None

    def _new(self, lineno: int) -> perf_test.PerfTest:
        self._end()
        self._test = perf_test.PerfTest(lineno)
        return self._test

    def _open(self, lineno: int) -> perf_test.PerfTest:
        return self._test or self._new(lineno)

    def _begin(self, text: str, lineno: int) -> None:
        """Begin a test, unless the one that has just begun is still at its head."""
        test = self._test
        is_mixed = test is not None and (not test.is_over if test.is_begun else test.differs(text))
        match = _NAME.match(text)
        other = test is not None and match is not None and test.name not in ("", match[1])
        if test is None or test.is_begun or other:  # another name: the last test failed at once
            test = self._new(lineno)
        test.is_mixed |= is_mixed
        test.head(text)
        test.is_headed = True
        test.name = match[1] if match else test.name or self._command
        self._command = ""  # the next test has its own
        test.is_checked &= "validation: 0" not in text


def _cells(text: str) -> list[str]:
    """Return the cells of a row of a Markdown table, without marks for bold and code."""
    return [cell.strip(" \t*`") or perf_test.ABSENT for cell in text[1:-1].split("|")]


MOST_RANKS = 1024  # of a process: a larger figure is an error


class _Half(msgspec.Struct):
    alg_bw: float | str
    bus_bw: float | str
    time: float | str | None = None
    cpu_time: float | str | None = None
    nwrong: float | str | None = None

    @property
    def figures(self) -> list[float] | None:
        """Time, algorithm and bus bandwidth; none if one of them is not a number."""
        time = self.time if self.time is not None else self.cpu_time or 0.0
        return numbers(map(str, (time, self.alg_bw, self.bus_bw)))


class _Row(msgspec.Struct):
    size: int
    type: str = ""
    redop: str = ""
    out_of_place: _Half | None = None
    in_place: _Half | None = None


class _Process(msgspec.Struct):
    rank: int
    hostname: str = ""
    device: int = 0
    device_info: str = ""


class _Config(msgspec.Struct):
    nthreads: int = 1
    ngpus: int = 1
    validation: int = 1
    devices: list[_Process] = []


class _Outcome(msgspec.Struct):
    count: int = 0
    bandwidth: float | str = 0.0
    okay: str = ""


class NcclJsonReport(msgspec.Struct):
    results: list[_Row]
    args: list[str] = []
    config: _Config = msgspec.field(default_factory=_Config)
    out_of_bounds: _Outcome = msgspec.field(default_factory=_Outcome)
    average_bus_bandwidth: _Outcome = msgspec.field(default_factory=_Outcome)
    errors: list[str] = []

    def fill(self, test: perf_test.PerfTest) -> None:
        test.is_headed = test.is_over = True
        test.name = (self.args or [""])[0].rpartition("/")[2]
        test.is_checked = bool(self.config.validation)
        self._place(test)
        for error in filter(str.strip, self.errors):
            test.builder.fail(error)
        if self.out_of_bounds.okay == "false":
            test.builder.fail(f"Out of bounds values : {self.out_of_bounds.count} FAILED")
        if self.average_bus_bandwidth.okay == "false":
            test.builder.fail(f"Avg bus bandwidth : {self.average_bus_bandwidth.bandwidth} FAILED")
        for row in self.results:
            for place, half in (("out", row.out_of_place), ("in", row.in_place)):
                if half is not None and (figures := half.figures):
                    params = perf_test.params_of(row.size, row.type, row.redop, place)
                    test.add(params, figures, str(half.nwrong))

    def _place(self, test: perf_test.PerfTest) -> None:
        """Name all ranks: the file names only the first one of each process."""
        per_process = self.config.nthreads * self.config.ngpus
        for process in self.config.devices:
            for index in range(min(per_process, MOST_RANKS)):
                test.ranks[process.rank + index] = process.hostname, process.device + index
            if process.device_info:
                test.builder.set_device(process.device_info)
