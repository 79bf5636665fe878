"""Rows of numbers, many at once: several times as fast as one after another."""

from __future__ import annotations

import re
from array import array
from functools import cache
from itertools import chain
from operator import le
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

DIGITS = 18  # of a number that fits into 64 bits
_DECIMALS = msgspec.json.Decoder(list[float])


class SizeRows(NamedTuple):
    """Consecutive rows of a table over sizes.

    Args:
        sizes: their first cells, which do not fall.
        columns: the figures of each column to the right.
        end: where the rows end in the text.

    """

    sizes: tuple[int, ...]
    columns: list[list[float]]
    end: int


def decimals(cells: Sequence[str]) -> list[float]:
    """Read many numbers at once.

    Args:
        cells: of numbers as JSON has them, such as `25.21`, `1e-06`, `7`.

    Returns:
        The numbers.

    Raises:
        ValueError: one is spelt differently (`.5`, `1,234`, `nan`).

    """
    found = _DECIMALS.decode(f"[{','.join(cells)}]")
    if len(found) != len(cells):
        message = "A comma separates digits."
        raise ValueError(message)
    return found


def size_rows(text: str, at: int, figures: int) -> SizeRows | None:
    """Read consecutive rows of a size and this many figures.

    Args:
        text: many lines.
        at: the offset in it at which a line begins.
        figures: in each row, after the size.

    Returns:
        The rows; none if there are none, or if they have to be read one by one.

    """
    rows = _rows_of(figures).match(text, at)
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


def row_by_row(columns: Sequence[Sequence[float]]) -> array[float]:
    """Give the figures of columns of equal length in the order of the rows."""
    one = len(columns) == 1
    return array("d", columns[0] if one else chain.from_iterable(zip(*columns, strict=True)))


@cache
def _rows_of(figures: int) -> re.Pattern[str]:
    """Give a pattern for rows of a size and this many figures."""
    whole = rf"\d{{1,{DIGITS}}}"
    figure = rf"[ \t]+{whole}(?:\.\d{{1,20}})?"
    return re.compile(rf"(?:[ \t]*{whole}(?:{figure}){{{figures}}}[ \t]*\n)+")
