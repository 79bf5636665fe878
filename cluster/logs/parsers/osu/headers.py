"""What the title and the header of an OSU table say: its test, its columns, their metrics.

All tests of a log repeat them, so what they say is kept.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from cluster.logs.parsers import GB, MB
from cluster.logs.parsers.osu import metrics

if TYPE_CHECKING:
    from cluster.core.model.measurements import Definition

MICRO = 1e6  # microseconds per second
SIZES = ("Size", "Size (B)", "Message Size")  # how the first column is called
SCALES = {"MB/s": MB, "GB/s": GB}
MOST = 256  # titles and headers that are kept, because tests repeat them

# The library, and after a dash, the memory of the buffers: `MPI-CUDA`, `MPI_Put-CUDA`.
_NAME = re.compile(
    r"(?:OSU|OMB)(?:-Py)?\s+(?:One Sided\s+)?(?:(?:MPI|OpenSHMEM|UPC\S*)\s+)?"
    r"(.*?)\s+Tests?\b"
)
_MEMORY = re.compile(r"\b(?:MPI\w*|[NRO]CCL|OpenSHMEM)-(\w+)")
_COLUMN = re.compile(
    r"(Size(?: \(B\))?|Iterations|Validation|Messages/s|Message Size|Datatype|MB/s)(?!\s*\()"
    r"|([A-Za-z][\w. -]*?|)\s*\((us|MB/s|GB/s|%|ms)\)"
)
_HEAD = re.compile(r"#?\s*(?:Size|Message Size|Avg|Min|Max|Latency|Overall|Pairs)\b")
TAIL = re.compile(r"P(\d+(?:\.\d+)?)\b")
# Words in the names of ping-pong tests: their latency is one way.
_ONE_WAY = {
    *("latency", "multi", "multi-threaded", "multi-process", "congestion"),
    *("persistent", "partitioned", "nccl", "rccl"),
}
_ONE_SIDED = re.compile(
    r"MPI_(?:R?Put|R?Get|Acc|Fetch|CAS|Compare)|OpenSHMEM\S* (?:Put|Get|Atomic|Non)"
    r"|UPC\S* (?:MEM|async)",
    re.IGNORECASE,
)


class ColumnKind(NamedTuple):
    """The metric of a column, and its unit: how many per second, or the size of one."""

    metric: Definition
    scale: float


@lru_cache(MOST)
def said_by(title: str) -> tuple[str, str, bool]:
    """Return test that a title names, the memory of its buffers, and whether it is one-sided."""
    memory = _MEMORY.search(title)
    named = _NAME.match(title.replace(f"-{memory[1]}", "", 1) if memory else title)
    test = named[1] if named else title
    return test, memory[1] if memory else "", _ONE_SIDED.search(title) is not None


@lru_cache(MOST)
def columns_in(text: str) -> tuple[tuple[str, str], ...]:
    """Return the name and the unit of each column of a header; none if it is none."""
    columns = [(m[1] or m[2] or m[3], m[3] or "") for m in _COLUMN.finditer(text)]
    rates = any(unit or name in ("MB/s", "Messages/s") for name, unit in columns)
    return tuple(columns) if rates and _HEAD.match(text) else ()


@lru_cache(MOST)
def fits(test: str, columns: tuple[tuple[str, str], ...]) -> bool:
    """Tell whether the columns are rates if the title says so, and otherwise times."""
    rates = any(unit in SCALES or name in ("MB/s", "Messages/s") for name, unit in columns)
    overall = any(name == "Overall" for name, _ in columns)
    title = test.lower()
    if not title:
        return True
    titled = any(word in title for word in ("bandwidth", "bibw", "_bw", "message rate"))
    return rates == titled and (not overall or "non-blocking" in title or "_i" in title)


@lru_cache(MOST)
def kind_of(test: str, name: str, unit: str, *, one_sided: bool) -> ColumnKind | None:
    """Find the metric of a column, and its unit.

    None if its figures are not used, or have parameters of their own.
    """
    if TAIL.match(name.upper()):
        return None
    if unit == "us":
        time = _time(test, name.lower(), one_sided=one_sided)
        return ColumnKind(time, MICRO) if time else None
    if name == "Messages/s":
        return ColumnKind(metrics.RATE, 1.0)
    if name == "MB/s" or unit in SCALES:
        return ColumnKind(_rate(test), SCALES.get(unit, MB))
    return ColumnKind(metrics.OVERLAP, 1.0) if unit == "%" else None


def _rate(test: str) -> Definition:
    test = test.lower()
    if not test:
        return metrics.UNNAMED_RATE
    if "bi-directional" in test or "bibw" in test:
        return metrics.BIDIRECTIONAL
    return metrics.MULTI if "multiple" in test else metrics.BANDWIDTH


def _time(test: str, name: str, *, one_sided: bool) -> Definition | None:
    """Find the metric of a column of times; parts of a non-blocking call are left out."""
    for word, definition in (
        ("overall", metrics.OVERALL),
        ("compute", metrics.COMPUTE),
        ("pure", metrics.PURE),
        ("min lat", metrics.FASTEST),
        ("max lat", metrics.SLOWEST),
    ):
        if name.startswith(word):
            return definition
    if "lat" not in name:
        return None
    if not test:
        return metrics.UNNAMED_TIME
    if one_sided:
        return metrics.ONE_SIDED
    # `Allreduce Latency` is that of a collective, `Multi Latency` is one way
    return metrics.LATENCY if set(test.lower().split()) <= _ONE_WAY else metrics.COLLECTIVE
