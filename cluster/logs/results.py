"""The result of one run of a tool, while its log is read."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from itertools import accumulate
from sys import intern
from typing import TYPE_CHECKING

from cluster.core.model.logs import Parsed
from cluster.logs.alike import shared_settings
from cluster.logs.columns import Columns, SeriesPoint
from cluster.logs.series import Head, SeriesBuilder, TableCells, keep_columns, known_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cluster.core.model.logs import Detail
    from cluster.core.model.measurements import Definition, Measurement
    from cluster.core.model.value import Scalar

MIXED = (
    "{} row(s) may be of another run, which began before this one and has none: the lines of two "
    "runs are mixed, and none of these rows is used"
)

ALIKE = "{} more line(s) say the same of other ranks, hosts or sizes"
MOST_SINGLES = 64  # values that are kept as they come, as most results of tools have fewer
FEW = 2  # failures of a kind that are all shown
_NONE: Mapping[str, Scalar] = {}
_VARIES = re.compile(r"\b0x[0-9a-fA-F]+\b|\b[\w-]*\d[\w-]*\b")  # numbers, and names of hosts


class ResultBuilder:
    """Collects the result of one run of a tool."""

    def __init__(self, format_: str, first: int, title: str = "") -> None:
        self.format = intern(format_)
        self.first = first
        self.title = intern(title)  # most runs of a log have the same
        self._singles: list[Head] = []  # what each value is, where there are only single ones
        self._single_values: list[Sequence[float]] = []  # of each
        self._series: SeriesBuilder | None = None  # all values, otherwise
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
            value: in the definition's unit.
            params: the point; metrics of a point may share this object, which must not change.
            rank: that measured it; 0 if it is not known.
            size: bytes that moved.

        """
        head = (definition, rank, size, params or _NONE)
        if self._series is not None:
            self._series.add(head, value)
            return
        self._singles.append(head)
        self._single_values.append((value,))
        if len(self._singles) == MOST_SINGLES:
            self._all()

    def add_rows(
        self,
        definitions: Sequence[Definition],
        points: Sequence[SeriesPoint],
        values: array[float],
        *,
        rising: bool = False,
    ) -> None:
        """Add the rows of a table.

        Args:
            values: row by row, in the units of the definitions.

        """
        if points:
            self._all().add_rows(definitions, points, values, rising=rising)

    def add_cells(self, cells: TableCells, values: array[float]) -> None:
        """Add cells of a table that has another metric or other parameters in each.

        Args:
            cells: what was measured, and where; kept by the parser, as logs repeat their tables.
            values: of each cell, in the unit of its definition.

        """
        if values:
            self._all().add_cells(cells, values)

    def extend(
        self,
        definition: Definition,
        values: Sequence[float],
        params: Mapping[str, Scalar] | None = None,
        *,
        rank: int = 0,
        size: int = 0,
    ) -> None:
        """Add values to one series.

        Args:
            values: in the definition's unit.
            params: the point; metrics of a point may share this object, which must not change.
            rank: that measured them; 0 if it is not known.
            size: bytes that moved during each.

        """
        if not values:
            return
        head = (definition, rank, size, params or _NONE)
        if self._series is not None:
            self._series.extend(head, values)
            return
        self._singles.append(head)
        self._single_values.append(array("d", values))
        if len(self._singles) == MOST_SINGLES:
            self._all()

    def _all(self) -> SeriesBuilder:
        """Return the series, of which the single values are then a part."""
        if self._series is None:
            self._series = SeriesBuilder()
            for head, values in zip(self._singles, self._single_values, strict=True):
                self._series.extend(head, values)
            self._singles, self._single_values = [], []
        return self._series

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
        self._singles, self._single_values, self._series = [], [], None

    @property
    def empty(self) -> bool:
        """Whether there are no values."""
        return not self._singles and (self._series is None or self._series.empty)

    def parsed(self, detail: Detail | None = None) -> Parsed:
        """Return the complete result."""
        if self._is_doubted and not self.empty:
            rows = self._all().rows()
            self.clear()
            self.fail(MIXED.format(rows))
        measurements, definitions = self._columns()
        failures = tuple(_without_repeats(self._failures))
        if len(failures) < len(self._failures):
            self.note(ALIKE.format(len(self._failures) - len(failures)))
        return Parsed(
            format=self.format,
            title=self.title,
            first=self.first,
            measurements=measurements,
            definitions=definitions,
            detail=detail,
            notes=tuple(self._notes),
            failures=failures,
            operation=self.operation,
            ranks=self.ranks,
            hosts=self.hosts,
            devices=tuple(self._devices),
            settings=shared_settings(*self._settings.items()),
        )

    def _columns(self) -> tuple[Sequence[Measurement], tuple[Definition, ...]]:
        """Return the series and the definitions of their metrics."""
        if self._series is not None:
            return self._series.columns()
        if not self._singles:
            return (), ()
        key = tuple(map(_key, self._singles))
        known = known_columns(key)
        if known is None:
            singles = self._singles
            found, definitions = self._all().columns()
            if isinstance(found, Columns) and len(found) == len(singles):  # no series has two
                keep_columns(key, found, singles)
            return found, definitions
        values, ends = array("d"), None
        for several in self._single_values:
            values.extend(several)
        if len(values) > len(key):
            ends = array("Q", accumulate(map(len, self._single_values)))
        return known.with_values(values, ends), known.definitions


def _key(head: Head) -> tuple[object, ...]:
    """Return what tells the series of a value from others; `1` and `1.0` are not equal here."""
    definition, rank, size, params = head
    return (id(definition), rank, size, *params.items(), *map(type, params.values()))


def kind_of(failure: str) -> str:
    """Return what several ranks, hosts or sizes have in common in a failure."""
    return _VARIES.sub("0", failure)


def _without_repeats(failures: Iterable[str]) -> Iterable[str]:
    """Return the first failure of each kind, or all of a kind with a few."""
    kinds = defaultdict(list)
    for failure in failures:
        kinds[kind_of(failure)].append(failure)
    for alike in kinds.values():
        yield from alike if len(alike) <= FEW else alike[:1]
