"""Measurements in columns: millions of values in little more memory than their numbers need."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, overload

from cluster.core.model.measurements import Measurement

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from cluster.core.model.measurements import Definition
    from cluster.core.model.value import Scalar


class SeriesPoint(NamedTuple):
    """Where series were measured; the series of a point share it, and nobody changes it.

    Args:
        params: such as `{"size": 8}` (bytes).
        rank: that took the values; 0 if nobody says.
        size: bytes that moved during each value; 0 if nothing was moved.

    """

    params: dict[str, Scalar]
    rank: int
    size: int


class Points:
    """The points of one log over sizes, each made once: tables repeat them."""

    def __init__(self) -> None:
        """Begin with none."""
        self._known: dict[tuple[object, ...], dict[int, SeriesPoint]] = {}

    def over(
        self, params: dict[str, Scalar], sizes: Sequence[int], *, moved: bool
    ) -> list[SeriesPoint]:
        """Give the points of a table.

        Args:
            params: of all its rows.
            sizes: of the rows, in bytes.
            moved: that many bytes moved during each value.

        Returns:
            A point for each size; those of equal parameters are the same objects.

        """
        known = self._known.setdefault((moved, *params.items()), {})
        if not all(size in known for size in sizes):
            new = dict.fromkeys(sizes).keys() - known.keys()
            known |= {
                size: SeriesPoint({**params, "size": size}, 0, size if moved else 0) for size in new
            }
        return [known[size] for size in sizes]


@cache
def _id(definition: Definition) -> str:
    """Give the id of a definition: a digest, and the same few are asked for again and again."""
    return definition.id


class Columns(Sequence[Measurement]):
    """Series of one run of a tool; each becomes a `Measurement` when it is asked for.

    Args:
        definitions: of the metrics.
        metrics: which of the definitions each series is of, a byte each.
        points: where each series was measured.
        values: of all series, one after another.
        ends: where each series ends in `values`; none if each has one value.

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
        """Keep the columns as they are."""
        self._definitions = tuple((definition, _id(definition)) for definition in definitions)
        self._metrics = metrics
        self._points = points
        self._values = values
        self._ends = ends

    @property
    def nbytes(self) -> int:
        """How much memory its columns take, in bytes; the points are shared."""
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
        """Give equal ones the same number."""
        return hash((self._metrics, bytes(self._values)))

    def __repr__(self) -> str:
        """Show it as a tuple."""
        return repr(tuple(self))

    def _one(self, at: int) -> Measurement:
        definition, name = self._definitions[self._metrics[at]]
        point = self._points[at]
        begin, end = at, at + 1
        if self._ends is not None:
            begin, end = (self._ends[at - 1] if at else 0), self._ends[at]
        return Measurement(
            metric=definition.metric,
            definition=name,
            unit=definition.unit,
            params=point.params,
            rank=point.rank,
            host="",
            values=tuple(self._values[begin:end]),
            bytes=point.size,
        )
