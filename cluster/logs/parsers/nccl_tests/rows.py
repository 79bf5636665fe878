"""Rows of nccl-tests, many at once: their points, and whether their figures agree.

All tests of a log repeat the first cells of their rows (size, count, type, reduction, root), so
what these say is kept; only the figures to their right are new.
"""

from __future__ import annotations

from itertools import chain, takewhile
from typing import TYPE_CHECKING, NamedTuple

from cluster.logs.columns import SeriesPoint
from cluster.logs.parsers import GB, count, number
from cluster.logs.parsers.nccl_tests.metrics import RESOLUTION, SLACK
from cluster.logs.rows import decimals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

MICRO = 1e6  # microseconds per second
ABSENT = "N/A"  # a cell without a value
HALF = 4  # columns of each half of a row, counted from the right: time algbw busbw error
LEAST = 3  # columns before them: size, count, type
FIGURES = 3  # columns of a half that are measured: time, algbw, busbw
FOREVER, TINY = 1e18, 1e-18  # us, longer and shorter than any test
MOST_TABLES = 64  # tables whose first cells are kept
_NONE_WRONG = {"0", ABSENT}


class RowHeads(NamedTuple):
    """What the first cells of consecutive rows say.

    Args:
        rates: size over 1 us of each row in GB/s.

    """

    points: tuple[SeriesPoint, ...]
    rates: NDArray[np.float64]


class Heads:
    """A cache of what the first cells of rows say."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._places: dict[tuple[str, ...], tuple[SeriesPoint, ...]] = {}
        self._tables: dict[tuple[str, ...], RowHeads] = {}

    def places(self, cells: Sequence[str], halves: int = 2) -> tuple[SeriesPoint, ...]:
        """Return the points of the halves of a row: out of place, in place.

        Returns:
            A point for each half; none if these cells do not begin a row.

        """
        key = (*cells, "") if halves == 1 else tuple(cells)
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = _places(cells, halves)
        return found

    def table(self, columns: Sequence[Sequence[str]]) -> RowHeads:
        """Return what the first cells of consecutive rows say.

        Returns:
            Of the rows before the first whose cells do not begin a row.

        """
        key = tuple(chain.from_iterable(columns))
        found = self._tables.get(key)
        if found is None:
            if len(self._tables) >= MOST_TABLES:
                self._tables.clear()
            found = self._tables[key] = self._table(zip(*columns, strict=True))
        return found

    def _table(self, rows: Iterable[tuple[str, ...]]) -> RowHeads:
        import numpy as np  # noqa: PLC0415 - rarely needed by a program that only starts

        places = list(takewhile(bool, map(self.places, rows)))
        rates = np.array([place[0].size * (MICRO / GB) for place in places])
        points = (point for place in places for point in place for _ in range(FIGURES))
        return RowHeads(tuple(points), rates)


def _places(cells: Sequence[str], halves: int) -> tuple[SeriesPoint, ...]:
    size, elements = count(cells[0]), number(cells[1]) if len(cells) > 1 else None
    if len(cells) < LEAST or size is None or elements is None or number(cells[2]) is not None:
        return ()
    redop = cells[3] if len(cells) > LEAST and number(cells[3]) is None else ""  # or the root
    return tuple(point_of(size, cells[2], redop, place) for place in ("out", "in")[:halves])


def point_of(size: int, type_: str, redop: str, place: str) -> SeriesPoint:
    """Return the point of half a row.

    Args:
        size: in bytes.
        type_: of the elements, such as `float`.
        redop: the reduction; empty, `none` or `N/A` if there is none.
        place: `out` or `in`.

    """
    shown = {"redop": redop} if redop not in ("", "none", ABSENT) else {}
    return SeriesPoint({"size": size, "place": place, "type": type_, **shown}, 0, size)


def usual_rows(
    text: str, heads: Heads
) -> tuple[Sequence[SeriesPoint], NDArray[np.float64] | None, int]:
    """Read consecutive rows with two halves of four columns: time in us, rates in GB/s, errors.

    Returns:
        A point for each figure, the figures of each half (time, algbw, busbw), and the number of
        rows: those before the first that differs, has wrong values, or contradicts itself.

    """
    lines = text.split("\n")
    width = len(lines[0].split())
    head, rows = width - 2 * HALF, len(lines) - 1
    if head < LEAST:
        return (), None, 0
    cells = text.split()
    if len(cells) != rows * width:
        rows = next(at for at, line in enumerate(lines) if len(line.split()) != width)
    known = heads.table([cells[at : rows * width : width] for at in range(head)])
    rows = _without_wrong(cells, width, len(known.rates))
    figures = _figures(cells, head, rows)
    good = _agree(figures, known.rates[:rows])
    rows = rows if good.all() else int(good.argmin())
    found = figures[:, :, :rows].transpose(2, 0, 1).reshape(-1, FIGURES)
    return known.points[: 2 * FIGURES * rows], found, rows


def _without_wrong(cells: Sequence[str], width: int, rows: int) -> int:
    """Return the number of rows before the first with wrong values."""
    end = rows * width
    wrong = (cells[width - 1 : end : width], cells[width - 1 - HALF : end : width])
    if all(map(_NONE_WRONG.issuperset, wrong)):
        return rows
    for row, both in enumerate(zip(*wrong, strict=True)):
        if any((number(cell) or 0.0) >= 1 for cell in both):
            return row
    return rows


def _figures(cells: Sequence[str], head: int, rows: int) -> NDArray[np.float64]:
    """Return the figures of rows, in the order half, figure, row."""
    import numpy as np  # noqa: PLC0415 - rarely needed by a program that only starts

    width = head + 2 * HALF
    halves = (range(at, at + FIGURES) for at in (head, head + HALF))
    columns = [cells[at : rows * width : width] for half in halves for at in half]
    found = decimals(list(chain.from_iterable(columns)))
    return np.array(found).reshape(2, FIGURES, rows)


def _agree(figures: NDArray[np.float64], rates: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which rows have figures that agree with one another and with their sizes."""
    import numpy as np  # noqa: PLC0415 - rarely needed by a program that only starts

    time, algbw, busbw = figures[:, 0], figures[:, 1], figures[:, 2]
    expected = rates / np.maximum(time, TINY)
    good = np.abs(algbw - expected) <= RESOLUTION + SLACK * expected
    good &= busbw <= 2 * algbw + 2 * RESOLUTION
    if figures.size and not 0 <= figures.min() <= figures.max() < FOREVER:
        good &= ((figures >= 0) & (figures < FOREVER)).all(axis=1)
    rows: NDArray[np.bool_] = good[0] & good[1]
    return rows


def agrees(size: float, time: float, algbw: float, busbw: float, slack: float) -> bool:
    """Check that the figures of half a row agree, which torn or shifted columns do not.

    Args:
        size: in bytes.
        slack: by which `algbw` may differ from size over time, as a share.

    """
    if not 0 <= time < FOREVER or algbw < 0 or not 0 <= busbw <= 2 * algbw + 2 * RESOLUTION:
        return False
    expected = size / time * MICRO / GB if time else 0.0
    return abs(algbw - expected) <= RESOLUTION + slack * expected
