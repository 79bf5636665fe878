"""PARAM's communication benchmark (`comms.py`): a row per size, times of the slowest rank.

GB/s are 1e9 bytes. https://github.com/facebookresearch/param
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from cluster.core.model.measurements import Definition
from cluster.logs.parsers import GB, RunParser, count, number

if TYPE_CHECKING:
    from cluster.core.model.value import Scalar

_param = partial(
    Definition,
    benchmark="param_comms",
    clock="time.monotonic_ns of each rank, with synchronised calls",
    synchronisation="a barrier before each size",
    warm_up="10 calls that are not counted, unless --w said otherwise",
    aggregation="mean of ranks",
)
_rate = partial(_param, unit="B/s", better="higher")
BUSBW = _rate(
    metric="busbw",
    what="bus bandwidth: what the slowest link carries; printed in GB/s of 1e9 bytes",
    flow="one way",
    medium="collective",
)
ALGBW = _rate(
    metric="algbw",
    what="algorithm bandwidth: the size over the time; printed in GB/s of 1e9 bytes",
)


def _time(metric: str, what: str) -> Definition:
    return _param(metric=metric, unit="s", better="lower", what=f"one call, {what}; printed in us")


MEDIAN = _time("time", "the median over the ranks")
P75 = _time("time_p75", "the 75th percentile over the ranks")
P95 = _time("time_p95", "the 95th percentile over the ranks")
LEAST = _time("time_min", "the fastest rank")
MOST = _time("time_max", "the slowest rank")
PING = _time("ping_latency", "a message one way, median over the two ranks of a pair")
PING_PONG = _time("ping_pong_latency", "a message to and fro, median over the two ranks of a pair")
PAIR = _rate(
    metric="pair_bandwidth",
    what="of one pair of ranks, one way, mean over the pairs; printed in GB/s of 1e9 bytes",
    flow="one way",
)
PAIR_BOTH = _rate(
    metric="pair_bandwidth_both_ways",
    what="of one pair of ranks, both ways together, mean over the pairs; printed in GB/s",
    flow="both ways",
)

_HEAD = re.compile(r"\s*COMMS-RES\S*\s+(size \(B\)\s.*)$")
# Names as wide as their column touch the name before them.
_NAMES = re.compile(
    r"size \(B\)|P95 Latency\(us\): Quant|[A-Za-z]+\((?:us|GB/s)\)(?::p50)?"
    r"|nElementsPerRank(?:\(\w+\))?|\S+"
)
_ROW = re.compile(r"\s*COMMS-RES(?:-QUANT)?-?(\w*)(?:-([a-z]+\d*)\S*)?\s+(\d.*\d)\s*$")
_COLUMNS = {
    "Latency(us):p50": (MEDIAN, 1e-6),
    "p75": (P75, 1e-6),
    "p95": (P95, 1e-6),
    "Overall": (P95, 1e-6),  # of quantising, communicating and the way back
    "Min": (LEAST, 1e-6),
    "Max": (MOST, 1e-6),
    "AlgBW(GB/s)": (ALGBW, GB),
    "BusBW(GB/s)": (BUSBW, GB),
}
_PAIRS = {  # its p75 and p95 are those of two different times
    "pingLatency(us):p50": (PING, 1e-6),
    "pingPongLatency(us):p50": (PING_PONG, 1e-6),
    "avgUniBW(GB/s)": (PAIR, GB),
    "avgBiBW(GB/s)": (PAIR_BOTH, GB),
}


class ParamComms(RunParser):
    """PARAM comms.py: times in us, algorithm and bus bandwidth in GB/s of 1e9 bytes."""

    marks: ClassVar[tuple[str, ...]] = ("COMMS-RES",)
    definitions: ClassVar[tuple[Definition, ...]] = (
        *(BUSBW, ALGBW, MEDIAN, P75, P95, LEAST, MOST, PING, PING_PONG, PAIR, PAIR_BOTH),
    )
    title: ClassVar[str] = "PARAM comms"

    def __init__(self) -> None:
        """Begin outside any table."""
        super().__init__()
        self._columns: list[str] = []

    def take(self, line: str, number_: int) -> bool:
        """Read a header or a row."""
        head, row = _HEAD.match(line), _ROW.match(line)
        if head:
            self._begin(number_)
            self._columns = _NAMES.findall(head[1])
            return True
        if row is None or self._run is None:
            return False
        cells = row[3].split()
        values, size = [number(cell) for cell in cells], count(cells[0])
        if len(cells) != len(self._columns) or None in values or size is None:
            return False
        point: dict[str, Scalar] = {"size": size, **({"type": row[2]} if row[2] else {})}
        self._run.operation = row[1] or self._run.operation
        if row[1]:
            point["operation"] = row[1]
        known = _PAIRS if _PAIRS.keys() & set(self._columns) else _COLUMNS
        for name, value in zip(self._columns, values, strict=True):
            if name in known:
                definition, scale = known[name]
                self._run.add(definition, (value or 0.0) * scale, point, size=size)
        return True
