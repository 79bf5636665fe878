"""The lines that `launch_mpi_test.py` prints, and those of its allreduce.

`Process 1 transferred 100 MB in 23.1 ms (4323.8 MB/sec)`: MB is 1e6 bytes, one message one way,
timed by each rank separately: by rank 0 until its buffer is free again, by rank 1 in its receive.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from cluster.core.model.measurements import Definition
from cluster.logs.parsers import MB, Parser, ResultBuilder, number
from cluster.logs.rows import cells_of, decimals

if TYPE_CHECKING:
    from cluster.core.model.logs import Parsed

MILLI = 1e3  # milliseconds per second
SLACK = 0.02  # by which the printed rate may differ: times are printed to 0.1 ms
ROUNDING = 0.05  # ms

TIME = Definition(
    benchmark="mpi_test",
    metric="oneway_time",
    unit="s",
    better="lower",
    what="one message, one way, as the rank timed its own half of it; printed in ms",
    clock="time.perf_counter of the rank",
    synchronisation="none between the messages",
    warm_up="none",
    aggregation="each rank",
    flow="one way",
    medium="network",
)

_LINE = re.compile(
    r"\s*(?:\[\s*\d+%\] )?Process (\d{1,6}) transferred ([\d.]+) MB in ([\d.]+) ms"
    r" \(([\d.]+) MB/sec\)"
)
_LINES = re.compile(
    r"(?:Process \d{1,6}+ transferred \d{1,9}+(?:\.\d{1,9}+)? MB in \d{1,9}+\.\d{1,9}+ ms"
    r" \(\d{1,9}+\.\d{1,9}+ MB/sec\)\n)+"
)
_KNOWN = re.compile(
    r"\s*(?:Job ready for connection|\.\./connect |cluster connect |Alternatively run|tmux a\b)"
)


class MpiTest(Parser):
    """launch_mpi_test.py: one-way times of each rank; MB is 1e6 bytes."""

    marks: ClassVar[tuple[str, ...]] = (" transferred ",)
    definitions: ClassVar[tuple[Definition, ...]] = (TIME,)

    def __init__(self) -> None:
        self._builder: ResultBuilder | None = None

    def take(self, line: str, number: int) -> bool:
        """Read a transfer, if its time and its rate agree."""
        match = _LINE.match(line)
        if match is None:
            return _KNOWN.match(line) is not None
        found = _figures(match)
        if found is None:
            return False
        size, milliseconds = found
        if self._builder is None:
            self._builder = ResultBuilder("mpi_test", number, "launch_mpi_test.py")
        point = {"size": size}
        self._builder.add(TIME, milliseconds / MILLI, point, rank=int(match[1]), size=size)
        return True

    def take_rows(self, text: str, at: int, number: int) -> int:
        """Take transfers whose times and rates agree."""
        cells, end = cells_of(text, at, _LINES, "(")
        found = decimals(cells[3::10] + cells[6::10] + cells[8::10])
        many = len(found) // 3
        sizes, times, rates = found[:many], found[many : 2 * many], found[2 * many :]
        if not many or not all(map(_agree, sizes, times, rates)):
            return at
        series: dict[tuple[str, float], list[float]] = {}
        for rank, size, time in zip(cells[1::10], sizes, times, strict=True):
            series.setdefault((rank, size), []).append(time / MILLI)
        self._builder = self._builder or ResultBuilder("mpi_test", number, "launch_mpi_test.py")
        for (rank, size), seconds in series.items():
            bytes_ = round(size * MB)
            point = {"size": bytes_}
            self._builder.extend(TIME, seconds, point, rank=int(rank), size=bytes_)
        return end

    def results(self) -> tuple[Parsed, ...]:
        """Return one result."""
        return () if self._builder is None else (self._builder.parsed(),)


def _figures(match: re.Match[str]) -> tuple[int, float] | None:
    """Return bytes and milliseconds; none if the rate shows that a digit was lost."""
    size, time, rate = (number(match[at]) for at in (2, 3, 4))
    if size is None or time is None or rate is None or not _agree(size, time, rate):
        return None
    return round(size * MB), time


def _agree(size: float, time: float, rate: float) -> bool:
    """Tell whether a rate is that of a size and a time, both rounded."""
    if not (size and time and rate):
        return False
    expected = size / time * MILLI
    return abs(rate - expected) <= (SLACK + ROUNDING / time) * expected
