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
from typing import TYPE_CHECKING, ClassVar

import msgspec

from cluster.logs.parsers import Parser
from cluster.logs.parsers.nccl_tests.json_report import NcclJsonReport
from cluster.logs.parsers.nccl_tests.metrics import ALGBW, AVERAGE, BUSBW, TIME
from cluster.logs.parsers.nccl_tests.perf_test import ABSENT, AVERAGE_LINE, FAILED, RANK, PerfTest

if TYPE_CHECKING:
    from cluster.core.model.logs import Parsed
    from cluster.core.model.measurements import Definition

_START = re.compile(r"#?\s*(nThreads?:?\s+\d+\s|nccl-tests version|Collective test starting:)")
_NAME = re.compile(r"#?\s*Collective test starting:\s*(\S+)")
_KNOWN = re.compile(
    r"#\s*(?:$|-+$|\(B\)|out-of-place|Using devices|NCCL version|"
    r"Blocking|Parallel Init|Per-Iteration|Writing JSON|GPU memory|NCCL Tests compiled with|"
    r"Errors with asterisks)|"
    r"\(B\)\s+\(elements\)|out-of-place\s+in-pl|rccl-tests: Version",
)
_HEAD = re.compile(r"\d+\s+\d+\s+[a-z]\w*(?:\s+[a-z]\w*)?(?:\s+-?\d+)?")  # of a row
_COMMENTED = re.compile(r"#\s*\d+\s+\d+\s+[a-z]")
_COLUMNS = re.compile(r"\btime\s+algbw\s+busbw\b|\bcputime\s+algbw\s+busbw\b")  # no prose
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


class NcclTests(Parser):
    """nccl-tests: time, algorithm and bus bandwidth per size, out of place and in place."""

    marks: ClassVar[tuple[str, ...]] = (
        *("algbw", "nccl-tests", "nThread", "Avg bus bandwidth", "out_of_place"),
        *("Test NCCL failure", "NCCL failure", " float ", " half ", " bfloat16 "),
    )
    mends: ClassVar[bool] = True
    definitions: ClassVar[tuple[Definition, ...]] = (TIME, ALGBW, BUSBW, AVERAGE)

    def __init__(self) -> None:
        """Begin outside any test."""
        self._tests: list[PerfTest] = []
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
        if _COLUMNS.search(text):
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
        begun = (RANK, FAILED, AVERAGE_LINE)
        if not self._tests and any(form.match(text) for form in begun):
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
            found = msgspec.json.decode(text, type=NcclJsonReport)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return False
        test = PerfTest(number)
        found.fill(test)
        self._tests.append(test)
        return True

    def results(self) -> tuple[Parsed, ...]:
        """Give a result per test."""
        if self._tests and (begun := self._torn(sys.maxsize)):
            self._tests[-1].stopped = int(begun[0])
        return tuple(test.parsed() for test in self._tests if test.is_any)

    def _open(self, number: int) -> PerfTest:
        if not self._tests:
            self._tests.append(PerfTest(number))
        return self._tests[-1]

    def _begin(self, text: str, number: int) -> None:
        """Begin a test, unless the one that has just begun is still at its head."""
        if not self._tests or self._tests[-1].is_begun:
            self._tests.append(PerfTest(number))
        named = _NAME.match(text)
        test = self._tests[-1]
        test.headed = True
        test.name = named[1] if named else test.name or self._command
        self._command = ""  # of the next test, another
        test.checked &= "validation: 0" not in text


def _cells(text: str) -> list[str]:
    """Give the cells of a row of a Markdown table, without its marks for bold and code."""
    return [cell.strip(" \t*`") or ABSENT for cell in text[1:-1].split("|")]
