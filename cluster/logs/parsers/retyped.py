"""Tables of sizes that people typed again, in Markdown or CSV: a size, and columns of known tools.

The columns name their unit, as OSU, IMB and nccl-tests do. What a bandwidth was measured with is
not known any more, so none of OSU's or IMB's columns has a limit; bus bandwidth means the same
everywhere.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING

from cluster.logs.parsers import GB, MB, MIB, RunParser, SizeColumn, define, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.value import Scalar

BUS, ALGORITHM, BANDWIDTH, LATENCY, TIME = DEFINITIONS = define(
    "retyped",
    """
    busbw (B/s, all ranks, one way, collective): bus bandwidth, as nccl-tests defines it
    algbw (B/s, all ranks): bytes of the operation over its time, as nccl-tests defines it
    bandwidth (B/s): bytes over time, as the table states it
    latency (s): time of a message, as the table states it
    time (s): time of a call, as the table states it
    """,
    clock="not known",
    synchronisation="not known",
    warm_up="not known",
)
MICRO, MILLI, BITS = 1e6, 1e3, 8
_RATES = {
    "GB/s": (GB, 1),
    "MB/s": (MB, 1),
    "MiB/s": (MIB, 1),
    "Gbit/s": (1e9, BITS),
    "Gbps": (1e9, BITS),
    "GBps": (GB, 1),
    "MBps": (MB, 1),
}
_TIMES = {"us": MICRO, "µs": MICRO, "usec": MICRO, "ms": MILLI}
_SIZE = re.compile(r"(?:message |msg )?size\b|bytes\b", re.IGNORECASE)
_HEAD = re.compile(
    r"(?:(out-of-place|in-place|oop|ip) )?(busbw|bus bandwidth|algbw|algorithm bandwidth|bandwidth"
    r"|bw|latency|avg latency(?= )|average latency|t_avg|t_min|t_max|t(?=\[)|time)"
    r"(?: ?[(\[]?(GB/s|MB/s|MiB/s|Gbit/s|[GM]Bps|Gbps|us|µs|usec|ms)[)\]]?)",
    re.IGNORECASE,
)
_BYTES = re.compile(r"(\d{1,18}(?:\.\d{1,3})?) ?([KMG]i?)?(?:B|bytes)?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3}
_RULE = re.compile(r"[\s|:-]+$")
_EMPHASIS = re.compile(r"[*`]+|\s+(?:←|<-).*$")
PLACES = {"out-of-place": "out", "oop": "out", "in-place": "in", "ip": "in"}
MOST = 1000  # headers that are kept
LEAST = 2  # columns


class Retyped(RunParser):
    """Tables of sizes in Markdown or CSV with the columns of OSU, IMB and nccl-tests."""

    marks = (
        "busbw",
        "usbw (",
        "algbw",
        "_us",
        "_usec",
        "andwidth_",
        "andwidth (",
        "andwidth,",
        "atency (",
        "[usec]",
        "BW (",
    )
    definitions = DEFINITIONS
    title = "table of sizes"

    def __init__(self) -> None:
        super().__init__()
        self._separator = ""
        self._columns: tuple[SizeColumn | None, ...] = ()
        self._names: tuple[str, ...] = ()  # of the columns before that of sizes, such as the test

    def take(self, line: str, lineno: int) -> bool:
        """Read a header or a row."""
        for separator in ("|", ",", ";", "\t"):
            head = line.strip(" #")
            if separator in line and (columns := _columns(head, separator)):
                self._begin(lineno)
                self._separator, self._columns = separator, columns
                self._names = _names(head, separator)
                return True
        if not self._columns or self._separator not in line:
            self._columns = ()
            return False
        return _RULE.match(line) is not None or self._row(_cells(line, self._separator))

    def _row(self, cells: Sequence[str]) -> bool:
        if self._run is None or len(cells) != len(self._columns):
            return False
        size = _size(cells[len(self._names)])
        if size is None:
            return False
        params: dict[str, Scalar] = {**dict(zip(self._names, cells, strict=False)), "size": size}
        for column, cell in zip(self._columns, cells, strict=True):
            value = number(cell)
            if column and value is not None:
                column.add(self._run, value, params, size)
        return True


def _cells(line: str, separator: str) -> list[str]:
    inner = line.strip().strip("|") if separator == "|" else line
    return [_EMPHASIS.sub("", cell).strip(' "') for cell in inner.split(separator)]


def _names(line: str, separator: str) -> tuple[str, ...]:
    """Return the columns before that of sizes."""
    return tuple(
        cell.lower() for cell in takewhile(lambda c: not _is_size(c), _cells(line, separator))
    )


def _is_size(head: str) -> bool:
    return _SIZE.match(head.replace("_", " ").lstrip("# ")) is not None


@lru_cache(MOST)
def _columns(line: str, separator: str) -> tuple[SizeColumn | None, ...]:
    """Return what the columns of a header measure; none if it is no header of sizes."""
    cells = _cells(line, separator)
    if len(cells) < LEAST or not any(map(_is_size, cells)):
        return ()
    columns = tuple(map(_column, cells))
    several = [column.definition for column in columns if column]
    has_repeats = len(set(several)) < len(several)
    named = tuple(
        column._replace(more=(*column.more, ("column", cell))) if column and has_repeats else column
        for column, cell in zip(columns, cells, strict=True)
    )
    return named if several else ()


def _column(head: str) -> SizeColumn | None:
    """Return what a column measures, by its name and unit."""
    match = _HEAD.fullmatch(head) or _HEAD.fullmatch(head.replace("_", " "))
    if match is None:
        return None
    name, unit = match[2].lower(), match[3]
    place = PLACES.get((match[1] or "").lower(), "")
    more: tuple[tuple[str, Scalar], ...] = (("place", place),) if place else ()
    if unit in _TIMES:
        definition = LATENCY if "latency" in name else TIME
        more = (*more, ("statistic", name)) if name.startswith("t_") else more
        return SizeColumn(definition, over=_TIMES[unit], more=more)
    if unit not in _RATES or "lat" in name or name.startswith("t"):
        return None
    kinds = {"bus": BUS, "alg": ALGORITHM}
    times, over = _RATES[unit]
    return SizeColumn(kinds.get(name[:3], BANDWIDTH), times, over, more=more)


def _size(cell: str) -> int | None:
    """Return the bytes of a size: `64 MB` of these tables is 64 MiB, as the tools step in those."""
    match = _BYTES.fullmatch(cell)
    if match is None:
        return None
    return round(float(match[1]) * 1024.0 ** _POWERS[(match[2] or "")[:1].upper()])
