"""Rows of numbers, many at once: several times as fast as one after another."""

from __future__ import annotations

import re
from array import array
from functools import cache
from itertools import chain, compress
from operator import le
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

DIGITS = 18  # of a number that fits into 64 bits
_DECIMALS = msgspec.json.Decoder(list[float])


class SizeRows(NamedTuple):
    """Consecutive rows of a table over sizes."""

    sizes: tuple[int, ...]
    columns: list[list[float]]
    end: int


def decimals(cells: Sequence[str]) -> list[float]:
    """Read many numbers at once.

    Args:
        cells: of numbers as JSON has them, such as `25.21`, `1e-06`, `7`.

    Raises:
        ValueError: one is spelt differently (`.5`, `1,234`, `nan`).

    """
    found = _DECIMALS.decode(f"[{','.join(cells)}]")
    if len(found) != len(cells):
        message = "A comma separates digits."
        raise ValueError(message)
    return found


def size_rows(text: str, at: int, figures: int, places: int = 0) -> SizeRows | None:
    """Read consecutive rows of a size and this many figures.

    Args:
        places: decimals of each figure; 0 if they differ, or if some have none.

    Returns:
        The rows; none if there are none, or if they have to be read one by one.

    """
    rows = _rows_of(figures, places).match(text, at)
    if rows is None:
        return None
    cells, width = rows[0].split(), figures + 1
    sizes = tuple(map(int, cells[::width]))
    del cells[::width]
    try:
        found = decimals(cells)
    except ValueError:
        return None
    if not all(map(le, sizes, sizes[1:])):
        return None
    return SizeRows(sizes, [found[column::figures] for column in range(figures)], rows.end())


class MatrixRows(NamedTuple):
    """Consecutive rows of a matrix.

    Args:
        cells: for each cell, row by row, whether it has a figure: 1, or 0 for `N/A`.

    """

    labels: tuple[int, ...]
    cells: bytes
    figures: list[float]
    end: int

    @property
    def is_plain(self) -> bool:
        """Whether each row occurs once."""
        return len(set(self.labels)) == len(self.labels)


def cells_of(text: str, at: int, rows: re.Pattern[str], drop: str = "") -> tuple[list[str], int]:
    """Split consecutive rows into cells.

    Returns:
        The cells of all rows, and the offset at which the rows end; `at` if there is none.

    """
    found = rows.match(text, at)
    if found is None:
        return [], at
    whole = found[0].translate(dict.fromkeys(map(ord, drop), " ")) if drop else found[0]
    return whole.split(), found.end()


def matrix_rows(text: str, at: int, columns: int) -> MatrixRows | None:
    """Read consecutive rows of a matrix; an empty line may separate them.

    Args:
        columns: how many cells follow the number of a row: figures with decimals, or `N/A`.

    Returns:
        The rows; none if there are none, or if they have to be read one by one.

    """
    rows = _matrix_of(columns).match(text, at)
    if rows is None:
        return None
    cells = rows[0].split()
    labels = tuple(map(int, cells[:: columns + 1]))
    del cells[:: columns + 1]
    there = b"\1" * len(cells)
    if "N" in rows[0]:
        there = bytes(map("N/A".__ne__, cells))
        cells = list(compress(cells, there))
    try:
        return MatrixRows(labels, there, decimals(cells), rows.end())
    except ValueError:
        return None


def row_by_row(columns: Sequence[Sequence[float]]) -> array[float]:
    """Return the figures of columns of equal length in the order of the rows."""
    one = len(columns) == 1
    return array("d", columns[0] if one else chain.from_iterable(zip(*columns, strict=True)))


@cache
def _matrix_of(columns: int) -> re.Pattern[str]:
    """Return a pattern for rows of a number and this many cells."""
    cell = rf"[ \t]++(?:\d{{1,{DIGITS}}}+\.\d{{1,20}}+|N/A)"
    row = rf"[ \t]*+\d{{1,3}}+{cell * columns}[ \t]*+\n"
    return re.compile(rf"{row}(?:\n?{row})*")


@cache
def _rows_of(figures: int, places: int) -> re.Pattern[str]:
    """Return a pattern for rows of a size and this many figures."""
    whole = rf"\d{{1,{DIGITS}}}+"
    rest = rf"\.\d{{{places}}}" if places else r"(?:\.\d{1,20}+)?"
    figure = rf"[ \t]++{whole}{rest}"
    return re.compile(rf"(?:[ \t]*+{whole}{figure * figures}[ \t]*+\n)+")
