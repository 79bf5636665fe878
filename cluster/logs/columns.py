"""Measurements stored in columns: millions of values in little more memory than the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, overload

from cluster.core.model.measurements import Measurement

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from cluster.core.model.measurements import Definition
    from cluster.core.model.value import Scalar


MOST_TABLES = 64  # whose points are kept, because they may be repeated


class SeriesPoint(NamedTuple):
    """The point at which series were measured; all series of a point share this object.

    Args:
        params: such as `{"size": 8}` (bytes).
        rank: that measured the values; 0 if it is not known.
        size: bytes that moved during each value; 0 if nothing moved.

    """

    params: dict[str, Scalar]
    rank: int
    size: int


class CellPoints:
    """The points of the cells of matrices, each created once, as logs repeat their matrices."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], SeriesPoint] = {}

    def at(self, metric: str, params: dict[str, Scalar], size: int = 0) -> SeriesPoint:
        """Return the point of a cell.

        Args:
            size: bytes that moved.

        Returns:
            The same object for the same series, and another for any other.

        """
        key = (metric, size, *params.items())
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = SeriesPoint(params, 0, size)
        return found


class Points:
    """The points of one log over sizes, each created once, as tables repeat them."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], dict[int, SeriesPoint]] = {}
        self._tables: dict[tuple[object, ...], tuple[SeriesPoint, ...]] = {}

    def over(
        self,
        params: dict[str, Scalar],
        sizes: tuple[int, ...],
        moved: tuple[bool, ...],
        more: tuple[tuple[tuple[str, Scalar], ...], ...] = (),
    ) -> tuple[SeriesPoint, ...]:
        """Return the points of a table.

        Args:
            sizes: of the rows, in bytes.
            moved: for each column, whether this number of bytes moved during each value.
            more: for each column, parameters of its own, such as a percentile; empty if none has.

        Returns:
            A point for each value, row by row; points with equal parameters are the same object.

        """
        key = (sizes, moved, more, *params.items())
        found = self._tables.get(key)
        if found is None:
            if len(self._tables) >= MOST_TABLES:
                self._tables.clear()
            own = more or ((),) * len(moved)
            columns = [
                self._column({**params, "size": 0, **dict(extra)}, sizes, moved=column)
                for column, extra in zip(moved, own, strict=True)
            ]
            found = self._tables[key] = tuple(chain.from_iterable(zip(*columns, strict=True)))
        return found

    def _column(
        self, params: dict[str, Scalar], sizes: Sequence[int], *, moved: bool
    ) -> list[SeriesPoint]:
        known = self._known.setdefault((moved, *params.items()), {})
        for size in sizes:
            if size not in known:
                known[size] = SeriesPoint({**params, "size": size}, 0, size if moved else 0)
        return [known[size] for size in sizes]


@cache
def _id(definition: Definition) -> str:
    """Return the id of a definition, from a cache: it is a digest of a few definitions."""
    return definition.id


class Columns(Sequence[Measurement]):
    """The series of one run of a tool; each becomes a `Measurement` when it is accessed.

    Args:
        ends: where each series ends in `values`; none if each series has one value.

    """

    __slots__ = ("_definitions", "_ends", "_metrics", "_points", "_values")

    def __init__(
        self,
        definitions: Sequence[Definition],
        metrics: bytes,
        points: Sequence[SeriesPoint],
        values: array[float],
        ends: array[int] | None = None,
    ) -> None:
        self._definitions = tuple(definitions)  # the same object, if it is a tuple
        self._metrics = metrics
        self._points = points
        self._values = values
        self._ends = ends

    def with_values(self, values: array[float], ends: array[int] | None = None) -> Columns:
        """Return the same series with other values.

        Args:
            ends: where each series ends in `values`; none if each series has one value.

        """
        return Columns(self._definitions, self._metrics, self._points, values, ends)

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """The definitions of the metrics."""
        return self._definitions

    @property
    def nbytes(self) -> int:
        """The memory of its columns in bytes, without the points, which are shared."""
        ends = self._ends or ()
        return 8 * (len(self._values) + len(self._points) + len(ends)) + len(self._metrics)

    def __len__(self) -> int:
        """Count the series."""
        return len(self._metrics)

    @overload
    def __getitem__(self, at: int) -> Measurement: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Measurement, ...]: ...

    def __getitem__(self, at: int | slice) -> Measurement | tuple[Measurement, ...]:
        """Make one measurement, or those of a slice."""
        if isinstance(at, slice):
            return tuple(self._one(index) for index in range(*at.indices(len(self))))
        return self._one(range(len(self))[at])

    def __iter__(self) -> Iterator[Measurement]:
        """Make one measurement after another."""
        return map(self._one, range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Compare with any sequence of measurements."""
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        """Return equal sequences the same hash."""
        return hash((self._metrics, bytes(self._values)))

    def __repr__(self) -> str:
        """Show it as a tuple."""
        return repr(tuple(self))

    def _one(self, at: int) -> Measurement:
        definition = self._definitions[self._metrics[at]]
        point = self._points[at]
        begin, end = at, at + 1
        if self._ends is not None:
            begin, end = (self._ends[at - 1] if at else 0), self._ends[at]
        return Measurement(
            metric=definition.metric,
            definition=_id(definition),
            unit=definition.unit,
            params=point.params,
            rank=point.rank,
            host="",
            values=tuple(self._values[begin:end]),
            bytes=point.size,
        )
