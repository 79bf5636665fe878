"""The result of one run of a tool, while its log is read."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from typing import TYPE_CHECKING

from cluster.core.model.logs import Parsed, Setting
from cluster.logs.columns import Columns, SeriesPoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cluster.core.model.logs import Detail
    from cluster.core.model.measurements import Definition
    from cluster.core.model.value import Scalar

MIXED = (
    "{} row(s) may be of another run, which began before this one and has none: the lines of two "
    "runs are mixed, and none of these rows is used"
)

ALIKE = "{} more line(s) say the same of other ranks, hosts or sizes"
FEW = 2  # failures of a kind that are all shown
_VARIES = re.compile(r"\b0x[0-9a-fA-F]+\b|\b[\w-]*\d[\w-]*\b")  # numbers, and names of hosts


class ResultBuilder:
    """Collects the result of one run of a tool.

    Args:
        format_: the name of the parser.
        first: the number of its first line in the log.
        title: what was run.

    """

    def __init__(self, format_: str, first: int, title: str = "") -> None:
        """Start without results."""
        self.format = format_
        self.first = first
        self.title = title
        self._definitions: dict[
            str, Definition
        ] = {}  # of each metric, in the order in which they occurred
        self._numbers: dict[str, int] = {}  # the index of each metric in that order
        self._metrics = bytearray()  # the index of the metric of each series
        self._points: list[SeriesPoint] = []  # of each series
        self._values = array("d")  # the first value of each series
        self._more: dict[int, array[float]] = {}  # the other values of series with several
        self._places: dict[tuple[object, ...], int] = {}  # the index of each series, by its key
        self._indexed = 0  # how many series are in `_places`
        # By the id of the points of rows that were added together: first series, and columns
        self._rows: dict[int, tuple[int, Sequence[Definition]]] = {}
        self._is_doubted = False  # whether its rows may belong to another run
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
            params: the point; metrics of a point may share this object, which must not change.
            rank: that measured it; 0 if it is not known.
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
        self._points.append(SeriesPoint(params_, rank, size))
        self._values.append(value)
        self._indexed += 1

    def add_rows(
        self, definitions: Sequence[Definition], points: Sequence[SeriesPoint], values: array[float]
    ) -> None:
        """Add the rows of a table.

        Args:
            definitions: of its columns.
            points: of each value; equal points of one log are the same object.
            values: row by row, in the units of the definitions.

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
            for column in range(width):  # the point was measured before
                self._more.setdefault(place + column, array("d")).append(values[at + column])

    def rest(self) -> None:
        """Free the memory that is needed only to add values: the next run has begun."""
        self._places.clear()
        self._rows.clear()
        self._indexed = 0

    def _index(self) -> None:
        """Index the series of rows, which were added without checking for duplicates."""
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
        """Add a note for readers of the numbers, once."""
        self._notes[text] = None

    def says(self, note: str) -> bool:
        """Tell whether a note was added."""
        return note in self._notes

    def fail(self, text: str) -> None:
        """Add a failure that the log records, once."""
        self._failures[text[:500]] = None

    def on(self, device: str) -> None:
        """Record that a GPU of this model took part."""
        self._devices[device] = None

    def doubt(self) -> None:
        """Record that its rows may belong to another run, as two logs are mixed."""
        self._is_doubted = True

    def set(self, name: str, value: str) -> None:
        """Record a setting of the tool or its host; an empty value is ignored."""
        if value:
            self._settings[name] = value

    def clear(self) -> None:
        """Remove the values, because they are not credible."""
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
        """Give the complete result.

        Args:
            detail: what the log says besides measurements, such as a topology.

        Returns:
            The result.

        """
        if self._is_doubted and self._metrics:
            rows = len({id(point.params) for point in self._points})
            self.clear()
            self.fail(MIXED.format(rows))
        definitions = tuple(self._definitions.values())
        failures = tuple(_without_repeats(self._failures))
        if len(failures) < len(self._failures):
            self.note(ALIKE.format(len(self._failures) - len(failures)))
        return Parsed(
            format=self.format,
            title=self.title,
            first=self.first,
            measurements=self._columns(definitions) if self._metrics else (),
            definitions=definitions,
            detail=detail,
            notes=tuple(self._notes),
            failures=failures,
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


def kind_of(failure: str) -> str:
    """Give what several ranks, hosts or sizes have in common in a failure.

    Args:
        failure: a line.

    Returns:
        The line without what varies; equal for failures of one kind.

    """
    return _VARIES.sub("0", failure)


def _without_repeats(failures: Iterable[str]) -> Iterable[str]:
    """Give the first failure of each kind, or all of a kind with a few."""
    kinds = defaultdict(list)
    for failure in failures:
        kinds[kind_of(failure)].append(failure)
    for alike in kinds.values():
        yield from alike if len(alike) <= FEW else alike[:1]
