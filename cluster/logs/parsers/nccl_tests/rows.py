"""Rows of nccl-tests: the point of each half, and whether its figures agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cluster.logs.parsers import GB, count, number
from cluster.logs.parsers.nccl_tests.metrics import RESOLUTION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.value import Scalar

MICRO = 1e6  # microseconds per second
ABSENT = "N/A"  # a cell without a value
HALF = 4  # columns of each half of a row, counted from the right: time algbw busbw error
LEAST = 3  # columns before them: size, count, type
FOREVER = 1e18  # us, longer than any test


class HalfRow(NamedTuple):
    """Half a row: out of place, or in place; time in us, both rates in GB/s."""

    params: dict[str, Scalar]
    time: float
    algbw: float
    busbw: float

    @property
    def size(self) -> int:
        """Bytes, as its first column says."""
        return int(self.params["size"])


def places(cells: Sequence[str], halves: int = 2) -> tuple[dict[str, Scalar], ...]:
    """Return the parameters of a row's halves, out of place and in place; none if it is no row."""
    size, elements = count(cells[0]), number(cells[1]) if len(cells) > 1 else None
    if len(cells) < LEAST or size is None or elements is None or number(cells[2]) is not None:
        return ()
    redop = cells[3] if len(cells) > LEAST and number(cells[3]) is None else ""  # or the root
    return tuple(params_of(size, cells[2], redop, place) for place in ("out", "in")[:halves])


def params_of(size: int, type_: str, redop: str, place: str) -> dict[str, Scalar]:
    """Return the parameters of half a row: bytes, type, reduction (if any), `out` or `in`."""
    shown = {"redop": redop} if redop not in ("", "none", ABSENT) else {}
    return {"size": size, "place": place, "type": type_, **shown}


def agrees(size: float, time: float, algbw: float, busbw: float, slack: float) -> bool:
    """Check that the figures of half a row agree, which torn or shifted columns do not.

    The algorithm bandwidth may differ from size over time by `slack`, a share.
    """
    if not 0 <= time < FOREVER or algbw < 0 or not 0 <= busbw <= 2 * algbw + 2 * RESOLUTION:
        return False
    expected = size / time * MICRO / GB if time else 0.0
    return abs(algbw - expected) <= RESOLUTION + slack * expected
