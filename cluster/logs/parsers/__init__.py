"""What other people's tools print: one file per format, pure.

A parser reads one log, line by line, and says of each line whether it is its own. So several tools
may write into one log, and none needs to hold it in memory. What the numbers are is written in the
definitions that each parser has.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from array import array
from typing import TYPE_CHECKING, ClassVar

from cluster.core.model.logs import Parsed, Setting
from cluster.core.plugins import Plugin
from cluster.logs.columns import Columns, Point

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cluster.core.model.logs import Detail
    from cluster.core.model.measurements import Definition
    from cluster.core.model.value import Scalar

KB, MB, GB = 1e3, 1e6, 1e9
NOTHING = array("d")
DIGITS = 18  # of a number that fits into 64 bits
KIB, MIB, GIB = 2.0**10, 2.0**20, 2.0**30

_NUMBER = re.compile(r"[+-]?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][+-]?\d{1,3})?")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+\.\d{1,20}")
_COMMA = re.compile(r"\d{1,20},(?:\d{1,2}|\d{4,20})")


class Parser(Plugin):
    """One format; each instance reads one log."""

    folder: ClassVar[str] = "cluster.logs.parsers"

    marks: ClassVar[tuple[str, ...]]
    """Words of which at least one is in every log of this format: it is recognised by them."""

    has_rows: ClassVar[bool] = False
    """Whether it has rows of bare numbers: they are its own only if its header came last."""

    mends: ClassVar[bool] = False
    """Whether its rows are torn by the lines of others: it skims before them, and takes parts."""

    definitions: ClassVar[tuple[Definition, ...]]
    """Of all metrics that it can read: unit, direction, and what exactly the tool measured."""

    @abstractmethod
    def take(self, line: str, number: int) -> bool:
        """Read a line, if it is one of ours.

        Args:
            line: without its newline, clean.
            number: of it in the log, from 1.

        Returns:
            Whether it was understood.

        """

    def take_rows(self, text: str, at: int, number: int) -> int:
        """Read rows that stand one below the other, many at once.

        It is only asked behind a line that it took, and each row that it takes must mean what
        `take` would read in it: this is the fast way for large tables.

        Args:
            text: of many lines.
            at: where a line begins in it.
            number: of that line in the log, from 1.

        Returns:
            Where the first line begins that it does not take; `at` if that is the first one.

        """
        del text, number
        return at

    def skim(self, text: str, number: int) -> tuple[str, int]:
        """Take many lines at once, where logs are too large to look at each by itself.

        Args:
            text: of many lines.
            number: of the first of them in the log, from 1.

        Returns:
            The text, in which each line that was taken is empty now, and how many these are.

        """
        del number
        return text, 0

    def take_document(self, text: str, number: int) -> bool:
        """Read a JSON document, if it is one of ours.

        Args:
            text: of it; its end may be missing.
            number: of its first line in the log, from 1.

        Returns:
            Whether it was understood.

        """
        del text, number
        return False

    @abstractmethod
    def results(self) -> tuple[Parsed, ...]:
        """Give what was read, after the last line.

        Returns:
            A result per run of the tool, in the order of the log.

        """


class ResultBuilder:
    """Collects what one run of a tool says.

    Args:
        format_: the name of the parser.
        first: the number of its first line in the log.
        title: what was run.

    """

    def __init__(self, format_: str, first: int, title: str = "") -> None:
        """Begin with nothing."""
        self.format = format_
        self.first = first
        self.title = title
        self._definitions: dict[str, Definition] = {}  # of each metric, in the order they came
        self._numbers: dict[str, int] = {}  # of the metrics in that order
        self._metrics = bytearray()  # of each series, by these numbers
        self._points: list[Point] = []  # of each series
        self._values = array("d")  # the first of each series
        self._more: dict[int, array[float]] = {}  # the others, of series that have some
        self._places: dict[tuple[object, ...], int] = {}  # of series, by what tells them apart
        self._indexed = 0  # series that are in it
        # Of points (by identity) of rows that were added together: the first series, the columns
        self._rows: dict[int, tuple[int, Sequence[Definition]]] = {}
        self._notes: dict[str, None] = {}
        self._failures: dict[str, None] = {}
        self._devices: dict[str, None] = {}
        self._settings: dict[str, str] = {}
        self.operation = ""  # the collective, where there is one
        self.ranks = self.hosts = 0  # that took part, where the log says so

    def add(
        self,
        definition: Definition,
        value: float,
        params: Mapping[str, Scalar] | None = None,
        *,
        rank: int = 0,
        size: int = 0,
    ) -> None:
        """Add a value to its series.

        Args:
            definition: of the metric.
            value: in the definition's unit.
            params: the point; metrics of a point may share it, and nobody changes it.
            rank: that took it; 0 if nobody says.
            size: bytes that moved.

        """
        known = params or {}
        self._index()
        place = self._places.setdefault(
            (definition.metric, rank, *known.items()), len(self._metrics)
        )
        if place < len(self._metrics):
            self._more.setdefault(place, array("d")).append(value)
            return
        self._metrics.append(self._number(definition))
        params_ = known if isinstance(known, dict) else dict(known)
        self._points.append(Point(params_, rank, size))
        self._values.append(value)
        self._indexed += 1

    def add_rows(
        self, definitions: Sequence[Definition], points: Sequence[Point], values: array[float]
    ) -> None:
        """Add the rows of a table.

        Args:
            definitions: of its columns.
            points: of each value; equal ones of one log are the same object.
            values: of the first row, then of the next; in the units of the definitions.

        """
        width = len(definitions)
        known = self._rows.keys() & map(id, points)
        if self._indexed or any(self._rows[row][1] != definitions for row in known):
            for at, (point, value) in enumerate(zip(points, values, strict=True)):
                definition = definitions[at % width]
                self.add(definition, value, point.params, rank=point.rank, size=point.size)
            return
        metrics = bytes(map(self._number, definitions))
        fresh = dict.fromkeys(map(id, points[::width]))
        is_fresh = not known and len(fresh) * width == len(points)
        if is_fresh:
            first = len(self._metrics)
            places = range(first, first + len(points), width)
            self._rows.update(zip(fresh, ((place, definitions) for place in places), strict=True))
            self._metrics += metrics * len(fresh)
            self._points += points
            self._values += values
            return
        for at in range(0, len(points), width):
            place, _ = self._rows.setdefault(id(points[at]), (len(self._metrics), definitions))
            if place == len(self._metrics):
                self._metrics += metrics
                self._points += points[at : at + width]
                self._values += values[at : at + width]
                continue
            for column in range(width):  # once more
                self._more.setdefault(place + column, array("d")).append(values[at + column])

    def rest(self) -> None:
        """Give back the memory that only adding needs: the next run has begun."""
        self._places.clear()
        self._rows.clear()
        self._indexed = 0

    def _index(self) -> None:
        """Note where the series of rows are, which were added without looking."""
        if self._indexed == len(self._metrics):
            return
        names = tuple(self._definitions)
        for at in range(self._indexed, len(self._metrics)):
            point = self._points[at]
            key = (names[self._metrics[at]], point.rank, *point.params.items())
            self._places[key] = at
        self._indexed = len(self._metrics)

    def _number(self, definition: Definition) -> int:
        self._definitions.setdefault(definition.metric, definition)
        return self._numbers.setdefault(definition.metric, len(self._numbers))

    def note(self, text: str) -> None:
        """Say once what a reader of the numbers must know."""
        self._notes[text] = None

    def says(self, note: str) -> bool:
        """Tell whether a note was said."""
        return note in self._notes

    def fail(self, text: str) -> None:
        """Say once that the log records a failure."""
        self._failures[text[:500]] = None

    def on(self, device: str) -> None:
        """Say that a GPU of this model took part."""
        self._devices[device] = None

    def set(self, name: str, value: str) -> None:
        """Say what the tool or its host was set to; nothing, if the value is empty."""
        if value:
            self._settings[name] = value

    def clear(self) -> None:
        """Forget the values: they cannot be believed."""
        for kept in (self._definitions, self._numbers, self._metrics, self._points, self._more):
            kept.clear()
        self._values = array("d")
        self._places.clear()
        self._rows.clear()
        self._indexed = 0

    @property
    def empty(self) -> bool:
        """Whether there are no values."""
        return not self._metrics

    def parsed(self, detail: Detail | None = None) -> Parsed:
        """Give all of it.

        Args:
            detail: what is no measurement.

        Returns:
            The result.

        """
        definitions = tuple(self._definitions.values())
        return Parsed(
            format=self.format,
            title=self.title,
            first=self.first,
            measurements=self._columns(definitions) if self._metrics else (),
            definitions=definitions,
            detail=detail,
            notes=tuple(self._notes),
            failures=tuple(self._failures),
            operation=self.operation,
            ranks=self.ranks,
            hosts=self.hosts,
            devices=tuple(self._devices),
            settings=tuple(Setting(name=k, value=v) for k, v in self._settings.items()),
        )

    def _columns(self, definitions: Sequence[Definition]) -> Columns:
        if not self._more:
            return Columns(definitions, bytes(self._metrics), self._points, self._values)
        values, ends, at = array("d"), array("Q"), 0
        for place in sorted(self._more):
            ends.extend(range(len(values) + 1, len(values) + 1 + place - at))
            values += self._values[at : place + 1] + self._more[place]
            ends.append(len(values))
            at = place + 1
        ends.extend(range(len(values) + 1, len(values) + 1 + len(self._metrics) - at))
        values += self._values[at:]
        return Columns(definitions, bytes(self._metrics), self._points, values, ends)


Sheet = ResultBuilder  # its name before, which plug-ins of users may import


def number(text: str) -> float | None:
    """Read a number as a tool printed it, in any locale.

    Args:
        text: such as `25.21`, `1e-06`, `1,234.5` or `25,21`.

    Returns:
        The number; none if it is no finite number, or if nobody can tell whether its comma is a
        decimal one (`1,234`).

    """
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
    """Read a whole number that is not negative.

    Args:
        text: such as `8`.

    Returns:
        The number; none if it is not one, or too long.

    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None


def numbers(texts: Iterable[str]) -> list[float] | None:
    """Read numbers.

    Args:
        texts: of them.

    Returns:
        The numbers; none if one of them is not.

    """
    values = [number(text) for text in texts]
    found = [value for value in values if value is not None]
    return found if len(found) == len(values) else None
