"""Tables over sizes whose rows are read many at once: what their columns mean, and their points."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cluster.logs.columns import MOST_TABLES, CellPoints
from cluster.logs.rows import row_by_row
from cluster.logs.series import TableCells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.measurements import Definition
    from cluster.core.model.value import Scalar
    from cluster.logs.columns import SeriesPoint
    from cluster.logs.results import ResultBuilder


class SizeColumn(NamedTuple):
    """What a column measures.

    Args:
        over: by which it is divided then, to be in the unit of the definition.

    """

    definition: Definition
    times: float = 1.0
    over: float = 1.0
    moved: bool = False
    more: tuple[tuple[str, Scalar], ...] = ()

    def add(
        self, run: ResultBuilder, value: float, params: dict[str, Scalar], size: int = 0
    ) -> None:
        """Add one figure to a result.

        Args:
            size: of the row, in bytes.

        """
        point = {**params, **dict(self.more)}
        moved = size if self.moved else 0
        run.add(self.definition, value * self.times / self.over, point, size=moved)


class SizeTables:
    """The tables of one log; their points are made once, as most logs repeat their tables."""

    def __init__(self) -> None:
        self._points = CellPoints()
        self._cells: dict[tuple[object, ...], TableCells] = {}

    def add(
        self,
        run: ResultBuilder,
        params: dict[str, Scalar],
        sizes: tuple[int, ...],
        columns: Sequence[tuple[SizeColumn, Sequence[float]]],
    ) -> None:
        """Add rows to a result, as `SizeColumn.add` would add their figures.

        Args:
            sizes: of the rows, in bytes; no two are equal.

        """
        kinds = [column for column, _ in columns]
        # Definitions are constants: their addresses tell them apart, and are fast to compare.
        key = (sizes, *((id(c.definition), c.moved, c.more) for c in kinds), *params.items())
        cells = self._cells.get(key)
        if cells is None:
            if len(self._cells) >= MOST_TABLES:
                self._cells.clear()
            points = (self._point(column, params, size) for size in sizes for column in kinds)
            definitions = [column.definition for column in kinds]
            metrics = list(dict.fromkeys(definitions))
            numbers = [metrics.index(definition) for definition in definitions] * len(sizes)
            cells = TableCells(metrics, zip(numbers, points, strict=True))
            self._cells[key] = cells
        figures = [[v * c.times / c.over for v in values] for c, values in columns]
        run.add_cells(cells, row_by_row(figures))

    def _point(self, column: SizeColumn, params: dict[str, Scalar], size: int) -> SeriesPoint:
        point = {**params, "size": size, **dict(column.more)}
        return self._points.at(column.definition.metric, point, size if column.moved else 0)
