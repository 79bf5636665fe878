"""Parsers of what other tools print: one file per format.

A parser reads one log, line by line, and tells for each line whether it belongs to its format. So
several tools may write into one log, and no parser holds it in memory. The definitions of each
parser say what its numbers mean.
"""

import math
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from functools import lru_cache
from textwrap import dedent
from typing import ClassVar, NamedTuple, TypeVar

import msgspec

from cluster.core import decoders
from cluster.core.model.logs import Parsed
from cluster.core.model.results.measurements import Definition
from cluster.core.model.results.measurements import define as define
from cluster.core.model.value import Scalar
from cluster.core.plugins import Plugin
from cluster.logs.table import ResultBuilder as ResultBuilder

MB, GB = 1e6, 1e9
DIGITS = 18  # of a number that fits into 64 bits
CUT = "there is no row: it failed, or the log is cut off"
MIB = 2.0**20
MILLI, MICRO, NANO = 1e3, 1e6, 1e9  # in a second
BINARY = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
UNITS = {**BINARY, **{f"{power}IB": size for power, size in BINARY.items()}}
UNITS |= {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}

NEVER = "(?!)"

S = TypeVar("S", bound=msgspec.Struct)
_NUMBER = re.compile(r"[+-]?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][+-]?\d{1,3})?")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+\.\d{1,20}")
_COMMA = re.compile(r"\d{1,20},(?:\d{1,2}|\d{4,20})")


class Parser(Plugin):
    """One format; each instance reads one log."""

    folder: ClassVar[str] = "cluster.logs.parsers"

    marks: ClassVar[tuple[str, ...]]
    """Every log of this format contains at least one of these words, by which it is recognised.

    Written out as strings, as the reader finds them without importing the parser.
    """

    has_rows: ClassVar[bool] = False
    """Whether it has rows of bare numbers; they belong to the parser whose header came last."""

    rows_interrupted: ClassVar[bool] = False
    """Whether other tools' lines may interrupt its rows: it looks at lines before others do."""

    definitions: ClassVar[tuple[Definition, ...]]
    """Of all metrics that it can read: unit, direction, and exactly what the tool measured."""

    @abstractmethod
    def take(self, line: str, lineno: int) -> bool:
        """Read a line, if it belongs to this format.

        Args:
            line: cleaned, without its newline.
            lineno: of the line in the log, from 1.

        Returns:
            Whether it was understood.
        """

    def awaits(self, line: str) -> bool:
        """Tell whether a row that another parser took may be the first below its own header."""
        return False

    def expects(self, line: str) -> bool:
        """Tell whether a row that another parser took may be the next one of its open matrix."""
        return False

    def look(self, line: str, lineno: int) -> str:
        """Look at a line before any parser takes it; return what is left of it for them."""
        return line

    def scan(self, text: str, first: int, short: str) -> None:
        """Look at lines that any parser may take; the first of them has a number.

        `short` has a line of each shape, with 0 for each digit: what is not there is in none.
        """

    def take_document(self, text: str, lineno: int) -> bool:
        """Read a JSON document, whose end may be missing, if it belongs to this format."""
        return False

    @abstractmethod
    def results(self) -> tuple[Parsed, ...]:
        """Return a result per run of the tool, in the order of the log, after the last line."""


class RunParser(Parser):
    """Base of parsers that read one run after another: keeps finished runs and the open one."""

    title: ClassVar[str] = ""
    """The title of a run if the log does not name it; the parser's name, if empty."""

    def __init__(self) -> None:
        self._runs: list[Parsed] = []
        self._run: ResultBuilder | None = None
        self._tables: set[object] = set()  # of the open run
        self._reset()

    def _reset(self) -> None:
        """Forget what was read of a run: another one begins."""

    def _begin(self, lineno: int, title: str = "") -> ResultBuilder:
        """End the open run, and begin another one."""
        self._end()
        self._tables.clear()
        self._reset()
        self._run = ResultBuilder(self.name, lineno, title or self.title or self.name)
        return self._run

    def _open(self, lineno: int) -> ResultBuilder:
        """Return the open run; begin one if there is none, because its first lines are missing."""
        return self._run or self._begin(lineno)

    def _open_table(self, table: object, lineno: int) -> ResultBuilder:
        """Return the run of a table: another run than the open one, if that has this table."""
        run = self._begin(lineno) if table in self._tables else self._open(lineno)
        self._tables.add(table)
        return run

    def _end(self) -> None:
        if self._run is not None:
            self._finish(self._run)
            result = self._run.result()
            if result.measurements or result.failures or result.detail is not None:
                self._runs.append(result)
        self._run = None

    def _finish(self, run: ResultBuilder) -> None:
        """Add notes or failures about what is missing in a run that has ended."""
        if run.empty:
            run.lack_rows(CUT, f"rows of {self.title or self.name}")

    def results(self) -> tuple[Parsed, ...]:
        self._end()
        return tuple(self._runs)


class SizeColumn(NamedTuple):
    """What a column of a table over sizes measures.

    A figure `times` a factor, `over` another one, is in the unit of the definition. `moved` says
    whether the bytes of the row's size moved during it; `more` are parameters beside the row's.
    """

    definition: Definition
    times: float = 1.0
    over: float = 1.0
    moved: bool = False
    more: tuple[tuple[str, Scalar], ...] = ()
    name: str = ""  # that of the metric, if empty

    def add(
        self, run: ResultBuilder, value: float, params: Mapping[str, Scalar], size: int = 0
    ) -> None:
        """Add one figure, of a row of this many bytes, to a result."""
        payload = size if self.moved else 0
        run.add(self.definition, self.scale(value), {**params, **dict(self.more)}, size=payload)

    def scale(self, value: float) -> float:
        """Return a figure in the unit of the definition."""
        return value * self.times / self.over


class TableParser(RunParser):
    """Base of parsers that declare their lines, each by a pattern.

    A group that is named as a metric, or as a column, is a figure, and any other is a parameter;
    those of the start and the header are of all rows below. `size` is what moved during a row. A
    name with an underscore is no parameter: `_version`, `_operation`, `_ranks` and `_hosts` tell
    about the run, `_rank` about the row, and others are for `read` and `agrees`.
    """

    start: ClassVar[str] = NEVER  # begins a run
    header: ClassVar[str] = NEVER  # begins one if none is open
    rows: ClassVar[str] = NEVER  # one below the other; what is further to the right belongs to it
    failure: ClassVar[str] = NEVER  # its first group is what failed
    remarks: ClassVar[str] = NEVER  # without figures
    end: ClassVar[str] = NEVER  # of a run
    needs_start: ClassVar[bool] = True  # or a header, before rows and remarks
    operation: ClassVar[str] = ""  # the collective, if there is only one
    columns: ClassVar[tuple[SizeColumn, ...]] = ()  # of metrics in other units
    counts: ClassVar[tuple[str, ...]] = ()  # parameters that are whole numbers, or left out

    def __init__(self) -> None:
        super().__init__()
        rows = dedent(self.rows).strip().replace("\n    ", "").split("\n")
        lines = (self.start, self.header, self.failure, self.remarks, self.end, *rows)
        patterns = map(re.compile, lines)
        self._start, self._header, self._failure, self._remarks, self._last, *self._rows = patterns
        columns = (*map(SizeColumn, self.definitions), *self.columns)
        self._columns = {column.name or column.definition.metric: column for column in columns}

    def _reset(self) -> None:
        self._heading: dict[str, str] = {}  # groups of the start and the header
        self._above: dict[str, Scalar] = {}  # the parameters among them

    def take(self, line: str, lineno: int) -> bool:
        is_open = self._run is not None or not self.needs_start
        if start := self._start.match(line):
            self._head(self._begin(lineno), _groups(start))
        elif is_open and (row := self.read(line)):
            return self._row(row, lineno)
        elif self._run and self._last.match(line):
            self._end()
        elif header := self._header.match(line):
            self._head(self._open(lineno), _groups(header))
        elif self._run and (failure := self._failure.match(line)):
            self._run.fail(failure[1])
        else:
            return is_open and self._remarks.match(line) is not None
        return True

    def _head(self, run: ResultBuilder, texts: Mapping[str, str]) -> None:
        run.title = f"{run.title} {texts.get('_version', '')}".rstrip()
        run.operation = self.operation
        self._describe(run, texts)
        self._heading.update(texts)
        self._above = self._point(self._heading)

    def _describe(self, run: ResultBuilder, texts: Mapping[str, str]) -> None:
        run.operation = texts.get("_operation", run.operation)
        run.ranks = int(texts.get("_ranks", run.ranks))
        run.hosts = int(texts.get("_hosts", run.hosts))

    def _point(self, texts: Mapping[str, str]) -> dict[str, Scalar]:
        point: dict[str, Scalar] = {}
        for name, text in texts.items():
            if name in self.counts:
                if value := count(text):
                    point[name] = value
            elif name not in self._columns and name[0] != "_":
                point[name] = size_of(text) if name == "size" else text
        return point

    def _row(self, row: Mapping[str, str], lineno: int) -> bool:
        figures = []
        for name, column in self._columns.items():
            if name in row:
                value = number(row[name])
                if value is None:
                    return False
                figures.append((column.definition, column.scale(value)))
        point = {**self._above, **self._point(row)}
        size = int(point.get("size", 0))
        if not self.agrees(size, row):
            return False
        run, rank = self._open(lineno), int(row.get("_rank", 0))
        self._describe(run, row)
        for definition, figure in figures:
            run.add(definition, figure, point, rank=rank, size=size)
        return True

    def read(self, line: str) -> Mapping[str, str] | None:
        """Return the groups of a row by their names; none if the line is not one."""
        for pattern in self._rows:
            if row := pattern.match(line):
                return _groups(row)
        return None

    def agrees(self, size: int, row: Mapping[str, str]) -> bool:
        """Tell whether the figures of a row, of this many bytes, agree with one another."""
        return True


def _groups(match: re.Match[str]) -> dict[str, str]:
    return {name: text for name, text in match.groupdict().items() if text is not None}


def decode(text: str, kind: type[S]) -> S | None:
    """Decode a JSON document; none if it is not of this kind."""
    try:
        return decoders.decode(text, kind)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def number(text: str) -> float | None:
    """Read a number as a tool printed it, in any locale: `25.21`, `1e-06`, `1,234.5` or `25,21`.

    None if it is not finite, or if its comma may separate decimals or thousands (`1,234`).
    """
    if text.isdigit() and text.isascii() and len(text) <= DIGITS:  # most cells: no pattern needed
        return float(text)
    if _NUMBER.fullmatch(text) is None:
        if _GROUPED.fullmatch(text):
            text = text.replace(",", "")
        elif _COMMA.fullmatch(text):
            text = text.replace(",", ".")
        else:
            return None
    value = float(text)
    return value if math.isfinite(value) else None


def count(text: str) -> int | None:
    """Read a whole number that is not negative; none if it is not one, or too long."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None


def numbers(texts: Iterable[str]) -> list[float] | None:
    """Read numbers; none if one of the texts is not a number."""
    values = [number(text) for text in texts]
    read_values = [value for value in values if value is not None]
    return read_values if len(read_values) == len(values) else None


@lru_cache(maxsize=1024)
def size_of(text: str) -> int:
    """Read a size in bytes: `64`, `1.5k` and `1.5 MiB` of powers of 1024, `1.5 MB` of 1000."""
    amount = text.rstrip("kmgtKMGTiB ")
    return round(float(amount) * UNITS[text[len(amount) :].strip().upper()])
