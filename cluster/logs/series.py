"""The series of one run of a tool, while its log is read."""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from cluster.logs.alike import MOST, shared_definitions, shared_metrics, shared_point, shared_points
from cluster.logs.columns import Columns, SeriesPoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cluster.core.model.measurements import Definition, Measurement
    from cluster.core.model.value import Scalar


Head = tuple["Definition", int, int, "Mapping[str, Scalar]"]
"""What a value is: its metric, the rank that measured it, the bytes that moved, and its point."""


class SeriesBuilder:
    """Collects values of any series: single ones, rows and cells of tables."""

    def __init__(self) -> None:
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
        self._held: list[SeriesPoint] = []  # of these, not in `_points`: no other may get their id
        self._tables: list[_ResultTable] = []  # without any point that was measured before
        self._tabled: set[int] = set()  # the ids of the points of tables
        self._celled: set[str] = set()  # the metrics of tables of cells
        self._others: set[str] = set()  # the metrics of all other values
        self._unindexed: set[str] = set()  # the metrics of series that are not in `_places`

    def add(self, head: Head, value: float) -> None:
        """Add a value to the series that its head tells."""
        definition, rank, size, known = head
        key = (definition.metric, rank, *known.items())
        place = self._places.get(key)
        if place is None:
            self._others.add(definition.metric)
            if self._tables:
                self._join()
            if definition.metric in self._unindexed:
                self._index()
            place = self._places.setdefault(key, len(self._metrics))
        if place < len(self._metrics):
            self._append(place, value)
            return
        self._indexed += self._indexed == len(self._metrics)
        self._metrics.append(self._number(definition))
        self._points.append(shared_point(key, known, rank, size))
        self._values.append(value)

    def add_rows(
        self,
        definitions: Sequence[Definition],
        points: Sequence[SeriesPoint],
        values: array[float],
        *,
        rising: bool = False,
    ) -> None:
        """Add the rows of a table, as `ResultBuilder.add_rows` says."""
        width, names = len(definitions), {d.metric for d in definitions}
        ids = set(map(id, points[::width]))
        is_new = (rising or len(ids) * width == len(points)) and self._tabled.isdisjoint(ids)
        is_new = is_new and not self._metrics and self._celled.isdisjoint(names)
        self._others |= names
        if is_new and len(names) == width:
            kinds = _cycle(width, len(points))
            self._tables.append(_ResultTable(definitions, kinds, points, values))
            self._tabled |= ids
            return
        self._settle()
        metrics = bytes(map(self._number, definitions))
        for at in range(0, len(points), width):
            row = points[at : at + width]
            place, known = self._rows.get(id(row[0]), (len(self._metrics), None))
            if known == definitions:  # the point was measured before
                for column in range(width):
                    self._append(place + column, values[at + column])
            elif known is not None or self._places:
                self._add_row(definitions, row, values[at : at + width])
            else:
                self._rows[id(row[0])] = place, definitions
                self._unindexed |= names
                self._metrics += metrics
                self._points += row
                self._values += values[at : at + width]

    def add_cells(self, cells: TableCells, values: array[float]) -> None:
        """Add cells of a table, as `ResultBuilder.add_cells` says."""
        if self._others.isdisjoint(cells.metrics) and self._tabled.isdisjoint(cells.ids):
            self._tables.append(_ResultTable(cells.definitions, cells.kinds, cells.points, values))
            self._tabled |= cells.ids
            self._celled |= cells.metrics
            return
        for kind, point, value in zip(cells.kinds, cells.points, values, strict=True):
            self.add(_head(cells.definitions[kind], point), value)

    def extend(self, head: Head, values: Sequence[float]) -> None:
        """Add values, of which there is at least one, to the series that their head tells."""
        self.add(head, values[0])
        if len(values) > 1:
            definition, rank, _, params = head
            place = self._places[definition.metric, rank, *params.items()]
            self._more.setdefault(place, array("d")).extend(values[1:])

    def _add_row(
        self, definitions: Sequence[Definition], row: Sequence[SeriesPoint], values: array[float]
    ) -> None:
        """Add a row to series that may have been begun by single values."""
        places = []
        for definition, point, value in zip(definitions, row, values, strict=True):
            self.add(_head(definition, point), value)
            places.append(self._places[_key(definition.metric, point)])
        if places == list(range(places[0], places[0] + len(places))):
            self._rows[id(row[0])] = places[0], definitions
            self._held.append(row[0])

    def _append(self, place: int, value: float) -> None:
        more = self._more.get(place)
        if more is None:
            more = self._more[place] = array("d")
        more.append(value)

    def _settle(self) -> None:
        """Index the rows of all tables, as single values or the same points follow."""
        first = len(self._metrics)
        are_rows = True
        for table in self._tables:
            for at in range(0, len(table.points), len(table.definitions)) if table.has_rows else ():
                self._rows[id(table.points[at])] = first + at, table.definitions
            are_rows &= table.has_rows
            first += len(table.points)
        self._join()
        if not are_rows:
            self._index()

    def _join(self) -> None:
        """Make one sequence of all tables."""
        for definitions, kinds, points, values in self._tables:
            metrics = bytes(map(self._number, definitions))
            is_same = metrics == _cycle(len(metrics), len(metrics))
            self._metrics += kinds if is_same else kinds.translate(metrics.ljust(256))
            self._points += points
            self._values += values
            self._unindexed.update(definition.metric for definition in definitions)
        self._tables = []

    def _index(self) -> None:
        """Index the series of rows, which were added without checking for duplicates."""
        names = tuple(self._definitions)
        for at in range(self._indexed, len(self._metrics)):
            point = self._points[at]
            self._places[_key(names[self._metrics[at]], point)] = at
        self._indexed = len(self._metrics)
        self._unindexed.clear()

    def _number(self, definition: Definition) -> int:
        found = self._numbers.get(definition.metric)
        if found is None:
            self._definitions[definition.metric] = definition
            found = self._numbers[definition.metric] = len(self._numbers)
        return found

    def rows(self) -> int:
        """Count the points, after the last value."""
        self._settle()
        return len({id(point.params) for point in self._points})

    @property
    def empty(self) -> bool:
        """Whether there are no values."""
        return not self._metrics and not self._tables

    def columns(self) -> tuple[Sequence[Measurement], tuple[Definition, ...]]:
        """Return the series and the definitions of their metrics."""
        if self._tables and not self._metrics:
            found = self._tables[0].columns() if len(self._tables) == 1 else self._joined()
            return found, found.definitions
        self._join()
        definitions = shared_definitions(*self._definitions.values())
        if not self._metrics:
            return (), definitions
        metrics, points = shared_metrics(bytes(self._metrics)), shared_points(self._points)
        if not self._more:
            return Columns(definitions, metrics, points, self._values), definitions
        values, ends, at = array("d"), array("Q"), 0
        for place in sorted(self._more):
            ends.extend(range(len(values) + 1, len(values) + 1 + place - at))
            values += self._values[at : place + 1] + self._more[place]
            ends.append(len(values))
            at = place + 1
        ends.extend(range(len(values) + 1, len(values) + 1 + len(self._metrics) - at))
        values += self._values[at:]
        return Columns(definitions, metrics, points, values, ends), definitions

    def _joined(self) -> Columns:
        """Return the series of several tables; most results of a log have the same ones."""
        tables = self._tables
        key = tuple((id(t.points), t.kinds, *map(id, t.definitions)) for t in tables)
        known = known_columns(key)
        if known is not None:
            values = array("d")
            for table in tables:
                values += table.values
            return known.with_values(values)
        self._join()
        definitions = shared_definitions(*self._definitions.values())
        metrics, points = shared_metrics(bytes(self._metrics)), shared_points(self._points)
        found = Columns(definitions, metrics, points, self._values)
        if all(isinstance(table.points, tuple) for table in tables):
            keep_columns(key, found, [(table.points, table.definitions) for table in tables])
        return found


class _KeptColumns(NamedTuple):
    """The series of a result, and what their key names by its address: it must stay there."""

    columns: Columns
    addressed: Sequence[object]


_KEPT: dict[tuple[object, ...], _KeptColumns] = {}


def known_columns(key: tuple[object, ...]) -> Columns | None:
    """Return the series of an earlier result; most results of a log have the same.

    Returns:
        The series with the earlier values; none if there are none, or no longer.

    """
    found = _KEPT.get(key)
    return found.columns if found else None


def keep_columns(key: tuple[object, ...], columns: Columns, addressed: Sequence[object]) -> None:
    """Keep the series of a result for others."""
    if len(_KEPT) >= MOST:
        _KEPT.clear()
    _KEPT[key] = _KeptColumns(columns, addressed)


class TableCells:
    """The cells of a table: what was measured in each, and where.

    Args:
        cells: the index of a metric among these, and the point, of each value; no two are alike.

    """

    __slots__ = ("definitions", "ids", "kinds", "metrics", "points")

    def __init__(
        self, definitions: Sequence[Definition], cells: Iterable[tuple[int, SeriesPoint]]
    ) -> None:
        found = tuple(cells)
        self.definitions = tuple(definitions)
        self.kinds = bytes(kind for kind, _ in found)
        self.points = tuple(point for _, point in found)
        self.metrics = frozenset(definition.metric for definition in definitions)
        self.ids = frozenset(map(id, self.points))


class _ResultTable(NamedTuple):
    """A table: its metrics; the metric and the point of each value; and the values row by row."""

    definitions: Sequence[Definition]
    kinds: bytes
    points: Sequence[SeriesPoint]
    values: array[float]

    @property
    def has_rows(self) -> bool:
        """Whether each row has each metric once."""
        return self.kinds == _cycle(len(self.definitions), len(self.points))

    def columns(self) -> Columns:
        """Return its series."""
        return Columns(shared_definitions(*self.definitions), self.kinds, self.points, self.values)


@lru_cache(256)
def _cycle(width: int, series: int) -> bytes:
    """Return the number of the metric of each series of a table, row by row."""
    return bytes(range(width)) * (series // width)


def _head(definition: Definition, point: SeriesPoint) -> Head:
    return definition, point.rank, point.size, point.params


def _key(metric: str, point: SeriesPoint) -> tuple[object, ...]:
    """Return what tells a series from others."""
    return (metric, point.rank, *point.params.items())
