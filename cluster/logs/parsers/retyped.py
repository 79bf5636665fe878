"""Tables of sizes that people typed again, in Markdown or CSV: a size, and columns of known tools.

The columns name their unit, as OSU, IMB and nccl-tests do. What a bandwidth was measured with is
not known any more, so none of OSU's or IMB's columns has a limit; bus bandwidth means the same
everywhere.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from cluster.core.model.value import Scalar
from cluster.logs.parsers import GB, MB, MIB, RunParser, SizeColumn, define, number

SIZE = "size"
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
_UNITS = {  # what a figure is multiplied by, and then divided by
    **dict.fromkeys(("GB/s", "GBps"), (GB, 1)),
    **dict.fromkeys(("MB/s", "MBps"), (MB, 1)),
    **dict.fromkeys(("Gbit/s", "Gbps"), (GB, 8)),
    **dict.fromkeys(("us", "µs", "usec"), (1, 1e6)),
    "MiB/s": (MIB, 1),
    "ms": (1, 1e3),
}
_KINDS = {"bus": BUS, "alg": ALGORITHM, "b": BANDWIDTH, "t": TIME, "": LATENCY}  # by beginnings
_UNNAMED = {"busbw": "GB/s", "algbw": "GB/s"}  # in which nccl-tests prints, also without saying so
_SIZE = re.compile(r"(?:# ?)?(?:(?:message |msg )?size\b|bytes\b)", re.IGNORECASE)
_HEAD = re.compile(
    r"(?:(?:out-of-place|in-place|oop|ip) )?(busbw|bus bandwidth|algbw|algorithm bandwidth"
    r"|bandwidth|bw|(?:avg |average )?latency|t_avg|t_min|t_max|t(?=\[)|time)"
    r"(?: ?[(\[]?(GB/s|MB/s|MiB/s|Gbit/s|[GM]Bps|Gbps|us|µs|usec|ms)[)\]]?)?",
    re.IGNORECASE,
)
_BYTES = re.compile(r"(\d{1,18}(?:\.\d{1,3})?) ?([KMG]i?)?(?:B|bytes)?", re.IGNORECASE)
_RULE = re.compile(r"[\s|:-]+$")
_EMPHASIS = re.compile(r"[*`]+|\s+(?:←|<-).*$")
MOST = 1000  # headers that are kept


class Retyped(RunParser):
    """Tables of sizes in Markdown or CSV with the columns of OSU, IMB and nccl-tests."""

    marks = (
        *("busbw", "usbw (", "algbw", "_us", "_usec", "andwidth_", "andwidth (", "andwidth,"),
        *("atency (", "[usec]", "BW ("),
    )
    definitions = DEFINITIONS
    title = "table of sizes"
    _separator = ""
    _columns: tuple[SizeColumn | str | None, ...] = ()

    def take(self, line: str, lineno: int) -> bool:
        for separator in ("|", ",", ";", "\t", " "):
            if separator in line and (columns := _columns(line.strip(" #"), separator)):
                self._begin(lineno)
                self._separator, self._columns = separator, columns
                return True
        if not self._columns or self._separator not in line:
            self._columns = ()
            return False
        return _RULE.match(line) is not None or self._row(_cells(line, self._separator))

    def _row(self, cells: Sequence[str]) -> bool:
        if self._run is None or len(cells) != len(self._columns):
            return False
        pairs = [*zip(self._columns, cells, strict=True)]
        size = next(_size(cell) for column, cell in pairs if column == SIZE)
        if size is None:
            return False
        params: dict[str, Scalar] = {c: cell for c, cell in pairs if isinstance(c, str)}
        params[SIZE] = size
        for column, cell in pairs:
            if isinstance(column, SizeColumn) and (value := number(cell)) is not None:
                column.add(self._run, value, params, size)
        return True


def _cells(line: str, separator: str) -> list[str]:
    if separator == " ":
        return line.split()
    inner = line.strip().strip("|") if separator == "|" else line
    return [_EMPHASIS.sub("", cell).strip(' "') for cell in inner.split(separator)]


@lru_cache(MOST)
def _columns(line: str, separator: str) -> tuple[SizeColumn | str | None, ...]:
    """Return what columns measure, or the names of those before sizes; none without sizes."""
    cells = _cells(line, separator)
    index = next((n for n, cell in enumerate(cells) if _SIZE.match(cell.replace("_", " "))), None)
    columns = [_column(cell) for cell in cells]
    kinds = [column.definition for column in columns if column]
    is_typed = separator != " " or None not in columns[1:]  # else a line of nccl-tests, or prose
    if index is None or not kinds or (separator == " " and (index or not is_typed)):
        return ()
    for n, column in enumerate(columns):
        if column and kinds.count(column.definition) > 1:
            columns[n] = column._replace(more=(("column", cells[n]),))
    return (*map(str.lower, cells[:index]), SIZE, *columns[index + 1 :])


def _column(head: str) -> SizeColumn | None:
    """Return what a column measures, by its name and unit."""
    match = _HEAD.fullmatch(head) or _HEAD.fullmatch(head.replace("_", " "))
    unit = (match[2] or _UNNAMED.get(match[1].lower())) if match else None
    times, divisor = _UNITS.get(unit, (0, 0)) if unit else (0, 0)
    if match is None or not times:
        return None
    kind = next(kind for begin, kind in _KINDS.items() if match[1].lower().startswith(begin))
    return SizeColumn(kind, times, divisor) if (kind.unit == "s") == (times == 1) else None


def _size(cell: str) -> int | None:
    """Return the bytes of a size: `64 MB` of these tables is 64 MiB, as the tools step in those."""
    match = _BYTES.fullmatch(cell)
    power = " KMG".index((match[2] or " ")[0].upper()) if match else 0
    return round(float(match[1]) * 1024.0**power) if match else None
