"""PARAM's communication benchmark (`comms.py`): a row per size, times of the slowest rank.

GB/s are 1e9 bytes. https://github.com/facebookresearch/param
"""

import re

from cluster.core.model.value import Scalar
from cluster.logs.parsers import GB, RunParser, SizeColumn, count, define, number

DEFINITIONS = define(
    "param_comms",
    """
    busbw (B/s, one way, collective): bus bandwidth: what the slowest link carries; printed in GB/s
        of 1e9 bytes
    algbw (B/s): algorithm bandwidth: the size over the time; printed in GB/s of 1e9 bytes
    time (s): one call, the median over the ranks; printed in us
    time_p75 (s): one call, the 75th percentile over the ranks; printed in us
    time_p95 (s): one call, the 95th percentile over the ranks; printed in us
    time_min (s): one call, the fastest rank; printed in us
    time_max (s): one call, the slowest rank; printed in us
    ping_latency (s): one call, a message one way, median over the two ranks of a pair; printed in
        us
    ping_pong_latency (s): one call, a message to and fro, median over the two ranks of a pair;
        printed in us
    pair_bandwidth (B/s, one way): of one pair of ranks, one way, mean over the pairs; printed in
        GB/s of 1e9 bytes
    pair_bandwidth_both_ways (B/s, both ways): of one pair of ranks, both ways together, mean over
        the pairs; printed in GB/s
    """,
    clock="time.monotonic_ns of each rank, with synchronised calls",
    synchronisation="a barrier before each size",
    warm_up="10 calls that are not counted, unless --w said otherwise",
    aggregation="mean of ranks",
)
BUSBW, ALGBW, MEDIAN, P75, P95, LEAST, MOST, PING, PING_PONG, PAIR, PAIR_BOTH = DEFINITIONS

_HEAD = re.compile(r"\s*COMMS-RES\S*\s+(size \(B\)\s.*)$")
# Names as wide as their column touch the name before them.
_NAMES = re.compile(
    r"size \(B\)|P95 Latency\(us\): Quant|[A-Za-z]+\((?:us|GB/s)\)(?::p50)?"
    r"|nElementsPerRank(?:\(\w+\))?|\S+"
)
_ROW = re.compile(r"\s*COMMS-RES(?:-QUANT)?-?(\w*)(?:-([a-z]+\d*)\S*)?\s+(\d.*\d)\s*$")
_COLUMNS = {
    "Latency(us):p50": SizeColumn(MEDIAN, 1e-6, moved=True),
    "p75": SizeColumn(P75, 1e-6, moved=True),
    "p95": SizeColumn(P95, 1e-6, moved=True),
    "Overall": SizeColumn(P95, 1e-6, moved=True),  # of quantising, communicating and the way back
    "Min": SizeColumn(LEAST, 1e-6, moved=True),
    "Max": SizeColumn(MOST, 1e-6, moved=True),
    "AlgBW(GB/s)": SizeColumn(ALGBW, GB, moved=True),
    "BusBW(GB/s)": SizeColumn(BUSBW, GB, moved=True),
}
_PAIRS = {  # its p75 and p95 are those of two different times
    "pingLatency(us):p50": SizeColumn(PING, 1e-6, moved=True),
    "pingPongLatency(us):p50": SizeColumn(PING_PONG, 1e-6, moved=True),
    "avgUniBW(GB/s)": SizeColumn(PAIR, GB, moved=True),
    "avgBiBW(GB/s)": SizeColumn(PAIR_BOTH, GB, moved=True),
}


class ParamComms(RunParser):
    """PARAM comms.py: times in us, algorithm and bus bandwidth in GB/s of 1e9 bytes."""

    marks = ("COMMS-RES",)
    definitions = DEFINITIONS
    title = "PARAM comms"
    _columns: tuple[str, ...] = ()

    def take(self, line: str, lineno: int) -> bool:
        head, row = _HEAD.match(line), _ROW.match(line)
        if head:
            self._begin(lineno)
            self._columns = tuple(_NAMES.findall(head[1]))
            return True
        if row is None or self._run is None:
            return False
        cells = row[3].split()
        values, size = [number(cell) for cell in cells], count(cells[0])
        if len(cells) != len(self._columns) or None in values or size is None:
            return False
        point: dict[str, Scalar] = {"type": row[2]} if row[2] else {}
        point |= {"operation": row[1]} if row[1] else {}
        point["size"] = size
        columns = _PAIRS if _PAIRS.keys() & set(self._columns) else _COLUMNS
        self._run.operation = row[1] or self._run.operation
        for name, value in zip(self._columns, values, strict=True):
            if column := columns.get(name):
                column.add(self._run, value or 0.0, point, size)
        return True
