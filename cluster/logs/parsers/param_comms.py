"""PARAM's communication benchmark (`comms.py`): a row per size, times of the slowest rank.

GB/s are 1e9 bytes. https://github.com/facebookresearch/param
"""

import re
from collections.abc import Mapping

from cluster.logs.parsers import GB, ResultBuilder, SizeColumn, TableParser, define, numbers

DEFINITIONS = define(
    "param_comms",
    """
    time (s): one call, the median over the ranks; printed in us
    time_p75 (s): one call, the 75th percentile over the ranks; printed in us
    time_p95 (s): one call, the 95th percentile over the ranks; printed in us
    time_min (s): one call, the fastest rank; printed in us
    time_max (s): one call, the slowest rank; printed in us
    algbw (B/s): algorithm bandwidth: the size over the time; printed in GB/s of 1e9 bytes
    busbw (B/s, one way, collective): bus bandwidth: what the slowest link carries; printed in GB/s
        of 1e9 bytes
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

# Names as wide as their column touch the name before them.
_NAMES = re.compile(
    r"size \(B\)|P95 Latency\(us\): Quant|[A-Za-z]+\((?:us|GB/s)\)(?::p50)?"
    r"|nElementsPerRank(?:\(\w+\))?|\S+"
)
_COLUMNS = {
    "Latency(us):p50": "time",
    "p75": "time_p75",
    "p95": "time_p95",
    "Overall": "time_p95",  # of quantising, communicating and the way back
    "Min": "time_min",
    "Max": "time_max",
    "AlgBW(GB/s)": "algbw",
    "BusBW(GB/s)": "busbw",
}
_PAIRS = {  # its p75 and p95 are those of two different times
    "pingLatency(us):p50": "ping_latency",
    "pingPongLatency(us):p50": "ping_pong_latency",
    "avgUniBW(GB/s)": "pair_bandwidth",
    "avgBiBW(GB/s)": "pair_bandwidth_both_ways",
}


class ParamComms(TableParser):
    """PARAM comms.py: times in us, algorithm and bus bandwidth in GB/s of 1e9 bytes."""

    marks = ("COMMS-RES",)
    definitions = DEFINITIONS
    title = "PARAM comms"
    start = r"\s*COMMS-RES\S*\s+(?P<_names>size \(B\)\s.*)$"
    rows = r"""
        \s*COMMS-RES(?:-QUANT)?-?(?P<_operation>(?P<operation>\w+))?(?:-(?P<type>[a-z]+\d*)\S*)?
            \s+(?P<_cells>(?P<size>\d{1,18})\s.*\d)\s*$
    """
    columns = tuple(SizeColumn(d, GB if d.unit == "B/s" else 1e-6) for d in DEFINITIONS)

    def _head(self, run: ResultBuilder, texts: Mapping[str, str]) -> None:
        self._names = _NAMES.findall(texts["_names"])
        self._metrics = _PAIRS if _PAIRS.keys() & set(self._names) else _COLUMNS

    def read(self, line: str) -> Mapping[str, str] | None:
        row = dict(super().read(line) or {})
        cells = row.get("_cells", "").split()
        if len(cells) != len(self._names) or numbers(cells) is None:
            return None
        pairs = zip(self._names, cells, strict=True)
        row |= {self._metrics[name]: cell for name, cell in pairs if name in self._metrics}
        return {"type": row["type"], **row} if "type" in row else row
