"""nvbandwidth: copies between hosts and GPUs as matrices, text and JSON (`-j`).

GB is 1e9 bytes. A bidirectional test prints the rate of one direction while the other is loaded.
A copy within a device counts its bytes once, although the memory reads and writes each byte.
"""

import re

import msgspec

from cluster.core.model.logs import Parsed
from cluster.core.model.results.measurements import Definition
from cluster.core.model.value import Scalar
from cluster.logs.parsers import GB, NANO, Parser, ResultBuilder, count, decode, define, number

PEER, PEERS_BOTH, HOST, LOCAL, BANDWIDTH, SUM, LATENCY = DEFINITIONS = define(
    "nvbandwidth",
    """
    peer_copy_bandwidth (B/s, one way, GPU to GPU): copies between GPUs: one cell of the test's
        matrix, median of its samples; of a bidirectional test, the rate of one direction while the
        other is loaded; printed in GB/s of 1e9 bytes
    peer_copy_bidirectional (B/s, both ways, GPU to GPU): copies between GPUs, both directions
        together: one cell of the test's matrix, median of its samples; printed in GB/s of 1e9 bytes
    host_copy_bandwidth (B/s, one way, host to GPU): copies between a host and a GPU: one cell of
        the test's matrix, median of its samples; of a bidirectional test, the rate of one direction
        while the other is loaded; printed in GB/s of 1e9 bytes
    local_copy_bandwidth (B/s, one way, GPU memory): copies within a GPU's memory, each byte counted
        once: one cell of the test's matrix, median of its samples; printed in GB/s of 1e9 bytes
    copy_bandwidth (B/s): of any other test: one cell of the test's matrix, median of its samples;
        printed in GB/s of 1e9 bytes
    copy_bandwidth_sum (B/s): the sum of all cells of the test's matrix; printed in GB/s of 1e9
        bytes
    access_latency (s): one access by a kernel that chases pointers; printed in ns
    """,
    clock="CUDA events; a spin kernel holds the streams until all copies are queued",
    synchronisation="all streams start together",
    warm_up="one copy before",
)

MATRIX = "a row of the numbers of GPUs, and below it rows of a GPU and a figure for each"
_STATUS = {"Running": "it was begun, and never ended"}
_RUNNING = re.compile(r"[\s>]*Running (?:benchmark )?(\w+)\.\s*$")
_UNIT = re.compile(
    r"\s*(?:memcpy|memory|multicast|[Dd]evice|memset)\b"
    r".*?(?:(?: (Read1|Read2|Write1|Write2|Total))? bandwidth \((GB/s)\)|\((ns)\))"
)
_HEADER = re.compile(r"\s*\d{1,4}(?:\s+\d{1,4})*\s*$")
_SUM = re.compile(r"\s*SUM (\w+) (\S+)")
_SUMMED = re.compile(r"(?!.*latency)\w+_(?:memcpy_\w+|local_copy|to_one|to_all|sm|ce)")  # in GB/s
_WAIVED = re.compile(r"\s*(?:Waived|WAIVED):|\s*Waiving \w+\.|\s*\w+ WAIVED")
_ERROR = re.compile(
    r"\s*(?:\[?ERROR|ERROR:|Error:?|\[CUDA_ERROR\w*\]|CUDA_ERROR\w*|.*CUDA error|NVML_ERROR|"
    r"\[cudaError\w+\]|ASSERT in expression|Invalid value when checking)"
)
_DEVICE = re.compile(r"\s*(?:Process \d+ \(.*?\): )?[Dd]evice \d+: (.*?)(?: \([0-9a-f:]+\))?\s*$")
_KNOWN = re.compile(
    r"\s*(?:nvbandwidth Version|Built from Git|CUDA (?:Runtime|Driver) Version|Driver Version|"
    r"NOTE: |Performance can vary|Additional system-specific tuning|Process \d+ \(|MPI version|"
    r"Current offset :|COEFFICIENT_OF_VARIATION )"
)
MOST_DEVICES = 1024  # of a host, or of hosts that NVLink joins
HEAD = 8  # lines before the first test
NEXT = 2  # lines from a device to the next one, or to the first test
_HELP = re.compile(
    r"\s*(?:nvbandwidth CLI|Index, Name:|-h \[ --help \]|(?:Usage|usage):? \S*nvbandwidth)"
)
_MODEL = re.compile(r"\d+: (.*?)(?: \([0-9a-f:]+\).*)?")  # in the JSON


class _Case(msgspec.Struct):
    name: str
    status: str = ""
    error: str = ""
    bandwidth_description: str = ""
    bandwidth_matrix: list[list[str | float]] = []
    sum: float | None = None


class _Run(msgspec.Struct):
    testcases: list[_Case] = []
    devices: list[str] = msgspec.field(default_factory=list, name="GPU Device List")
    version: str = ""
    error: str = ""


class _NvBandwidthJson(msgspec.Struct):
    nvbandwidth: _Run


class NvBandwidth(Parser):
    """nvbandwidth: a matrix per test; rates in GB/s of 1e9 bytes, latencies in ns."""

    marks = (*("nvbandwidth", "memcpy CE", "memcpy SM", "_memcpy_", "_local_copy"),)
    has_rows = True
    definitions = DEFINITIONS

    def __init__(self) -> None:
        self._results: list[Parsed] = []  # the runs that have ended with figures
        self._builders: list[ResultBuilder] = []  # the open run, and earlier ones without figures
        self._test = ""
        self._part = ""  # of a bidirectional test: one direction, the other, or both together
        self._parts: set[str] = set()  # of this test, whose matrices have begun
        self._ran: set[str] = set()  # the tests of the open run
        self._unit = ""
        self._columns: list[str] = []
        self._rows: set[int] = set()  # of the open matrix
        # Cells of a matrix whose test is not named before it: its sum may name it.
        self._buffer: list[tuple[tuple[int, int], float]] | None = None
        self._is_help = False
        self._open_test = ""  # a test that has begun, and printed nothing else so far
        self._begun_at = 0  # the number of its line
        self._devices: list[str] = []  # that were named before a test, when its head is missing
        self._devices_at = 0  # the number of the last such line
        self._is_next = False  # whether another test begins on the next line

    def take(self, line: str, lineno: int) -> bool:
        alone = None if self._builders else _SUM.match(line)
        if alone and _SUMMED.match(alone[1]) and number(alone[2]) is not None:
            self._open(lineno).lack("only_sum")
        if "nvbandwidth Version" in line:
            is_mixed = any(b.empty and lineno - b.first <= HEAD for b in self._builders[-1:])
            self._append(ResultBuilder("nvbandwidth", lineno, line.strip()))
            if is_mixed:
                self._builders[-1].doubt()
            return True
        unit = _UNIT.match(line) if "(" in line else None
        if running := _RUNNING.match(line):
            self._settle()
            if running[1] in self._ran:
                self._append(ResultBuilder("nvbandwidth", lineno, "nvbandwidth"))  # without a head
            self._ran.add(running[1])
            self._is_next = lineno == self._begun_at + 1
            self._leave(self._open(lineno))
            self._open_test, self._begun_at = running[1], lineno
            self._test, self._part, self._unit, self._columns = running[1], "", "", []
            self._parts.clear()
        elif unit and (self._builders or "(row)" in line):
            self._settle()
            self._open_test = ""
            self._part = f"_{unit[1].lower()}" if unit[1] else ""
            self._unit, self._columns = unit[2] or unit[3], []
            # A second matrix of the same part belongs to a test that is not named.
            if not self._test or self._part in self._parts:
                self._test = " ".join(line.split()).partition(" bandwidth")[0]
                self._open(lineno)
                self._buffer = []
                self._parts.clear()
            self._parts.add(self._part)
        else:
            return self._cells(line) or self._rest(line, lineno)
        return True

    def expects(self, line: str) -> bool:
        cells = line.split()
        is_open = bool(self._unit and self._columns) and cells[:1] == [str(len(self._rows))]
        is_of_pairs = "device_to_device" in self._test
        return is_open and is_of_pairs and len(self._rows) < len(self._columns) == len(cells) - 1

    def _settle(self, name: str = "") -> None:
        """Add the cells of a matrix whose test was not named before it."""
        cells, self._buffer = self._buffer, None
        if cells and name:
            self._test = name
        elif cells:
            self._builders[-1].lack("nvbandwidth_unnamed")
        for cell, value in cells or ():
            self._add(self._builders[-1], cell, value)

    def _cells(self, line: str) -> bool:
        if not self._unit or not self._builders or not line.lstrip()[:1].isdigit():
            return False
        if not self._columns and _HEADER.match(line):
            self._columns = line.split()
            self._rows.clear()
            return True
        row, *cells = line.split()
        values = [number(cell) for cell in cells]
        is_complete = all(v is not None or c == "N/A" for v, c in zip(values, cells, strict=True))
        device = count(row)
        is_of_matrix = is_complete and 0 < len(cells) <= len(self._columns)
        # a row of sizes or of another table is none of this matrix
        is_pair = row in self._columns or "device_to_device" not in self._test
        if device is None or device >= MOST_DEVICES or not (is_of_matrix and is_pair):
            return False
        if device in self._rows or _HEADER.match(line):
            self._unit = ""  # of another matrix, whose first lines are missing
        self._rows.add(device)
        for column, value in zip(self._columns, values, strict=False):
            if value is not None and self._unit:
                self._add(self._builders[-1], (device, int(column)), value)
        return bool(self._unit)

    def _add(self, builder: ResultBuilder, cell: tuple[int, int], value: float) -> None:
        if not value and cell[0] == cell[1]:
            return  # a GPU with itself, which some versions print as 0.00
        if self._buffer is not None:
            self._buffer.append((cell, value))
            return
        test = self._test.removesuffix(self._part) + self._part
        point: dict[str, Scalar] = {"test": test, "row": cell[0], "column": cell[1]}
        if self._unit == "ns":
            builder.add(LATENCY, value / NANO, point)
        else:
            builder.add(_family(test), value * GB, point)

    def _rest(self, line: str, lineno: int) -> bool:
        if not self._builders:
            self._early(line, lineno)
            return False
        total = _SUM.match(line) if "SUM" in line else None
        if not total and _HELP.match(line):
            self._is_help = True
            return True
        waiver = _WAIVED.match(line) if "aiv" in line or "WAIVED" in line else None
        device = _DEVICE.match(line) if "evice " in line else None
        if device:
            self._builders[-1].set_device(device[1])
        elif total:
            value = number(total[2])
            self._settle(total[1] if _SUMMED.match(total[1]) and self._unit == "GB/s" else "")
            if value is not None and _SUMMED.match(total[1]):
                self._builders[-1].add(SUM, value * GB, {"test": total[1]})
            self._unit = ""  # the matrix has ended
        elif waiver:
            self._open_test = ""
            self._builders[-1].note("waived")
        elif _ERROR.match(line):
            self._open_test = ""
            self._builders[-1].fail(line.strip())
        else:
            return _KNOWN.match(line) is not None
        return True

    def _early(self, line: str, lineno: int) -> None:
        """Keep a device that is named before any test: one that follows at once ran on it."""
        if device := _DEVICE.match(line):
            earlier = self._devices if lineno - self._devices_at <= NEXT else []
            self._devices, self._devices_at = [*earlier, device[1]], lineno

    def _leave(self, builder: ResultBuilder) -> None:
        """Record that a test has begun without a result."""
        if self._open_test and self._is_next:
            builder.doubt()
        if self._open_test:
            text = f"{self._open_test} has no matrix: it failed, or the log is cut off"
            builder.lack_rows(text, MATRIX)
        self._open_test = ""

    def _open(self, lineno: int) -> ResultBuilder:
        if not self._builders:
            builder = ResultBuilder("nvbandwidth", lineno, "nvbandwidth")
            self._builders.append(builder)
            for model in self._devices if lineno - self._devices_at <= NEXT else ():
                builder.set_device(model)
        return self._builders[-1]

    def _append(self, builder: ResultBuilder) -> None:
        self._settle()
        self._ran.clear()
        if self._builders and not self._builders[-1].empty:
            self._results.append(self._builders.pop().result())
        self._builders.append(builder)

    def take_document(self, text: str, lineno: int) -> bool:
        document = decode(text, _NvBandwidthJson)
        if document is None:
            return False
        report = document.nvbandwidth
        builder = ResultBuilder("nvbandwidth", lineno, f"nvbandwidth {report.version}".strip())
        if report.error:
            builder.fail(report.error.strip())
        for device in map(_MODEL.fullmatch, report.devices):
            if device:
                builder.set_device(device[1])
        for case in report.testcases:
            self._case(builder, case)
        self._append(builder)
        self._test = self._unit = ""  # the lines that follow belong to none of its tests
        return True

    def _case(self, builder: ResultBuilder, case: _Case) -> None:
        unit = _UNIT.match(case.bandwidth_description)
        self._test = case.name
        self._part = f"_{unit[1].lower()}" if unit and unit[1] else ""
        is_time = "(ns)" in case.bandwidth_description or "latency" in case.name
        self._unit = "ns" if is_time else "GB/s"
        if case.status in ("Error", "Not Found", "Running") or case.error:
            builder.fail(f"{case.name}: {case.error or _STATUS.get(case.status, case.status)}")
        elif case.status == "Waived":
            builder.note("waived")
        for row, cells in enumerate(case.bandwidth_matrix):
            for column, cell in enumerate(cells):
                if (value := number(str(cell))) is not None:
                    self._add(builder, (row, column), value)
        if case.sum is not None and self._unit == "GB/s" and case.bandwidth_matrix:
            builder.add(SUM, case.sum * GB, {"test": case.name})

    def results(self) -> tuple[Parsed, ...]:
        self._settle()
        if self._builders:
            self._leave(self._builders[-1])
        for builder in self._builders:
            if builder.empty and builder.has_note("waived"):
                builder.fail("there is no matrix: all of it was waived")
            elif builder.empty and self._is_help:
                builder.note("only_help")
            elif builder.empty:
                builder.lack_rows("there is no matrix: it failed, or the log is cut off", MATRIX)
        self._results += [builder.result() for builder in self._builders]
        self._builders = []
        return tuple(sorted(self._results, key=lambda result: result.first))


def _family(test: str) -> Definition:
    if test.startswith(("host_to_", "device_to_host", "all_to_host")):
        return HOST
    if "device_to_device" in test or test.startswith(("all_to_one", "one_to_all")):
        both_ways = test.endswith("_total") or ("bidirectional" in test and test.endswith("_sm"))
        return PEERS_BOTH if both_ways else PEER
    return LOCAL if test.startswith("device_local_copy") else BANDWIDTH
