"""DeepSpeed's communication: its logger (per call, and the summary), and ds_bench.

Gbps are 1e9 bits; a message of 98.25 MB is 98.25 * 2**20 bytes, rounded. The throughput of the
logger counts the bytes that a collective moves: for an all_reduce, twice the size over the time.
https://www.deepspeed.ai/tutorials/comms-logging
"""

import re

from cluster.core.model.value import Scalar
from cluster.logs.parsers import RunParser, define, number, size_of

TIME, TPUT, BUSBW = DEFINITIONS = define(
    "deepspeed_comm",
    """
    time (s): one call of a collective: of the summary and of ds_bench, the mean of all of its size
    throughput (B/s): as DeepSpeed counts what a collective moves, over the time; printed in Gbps
    busbw (B/s, one way, collective): bus bandwidth as DeepSpeed computes it: what one link carries;
        printed in Gbps
    """,
    clock="time.time of the rank, with synchronised calls",
    synchronisation="none beside that of the program (ds_bench: a barrier)",
    warm_up="none (ds_bench: 5 calls that are not counted)",
)
_CALL = re.compile(
    r"[^\n]*\|[ \t]*comm op: (\w+)(?:_v\d)?[ \t]*\|[ \t]*time \(ms\): (\d[\d.]*)[ \t]*"
    r"\|[ \t]*msg size: (\d[\d.]* ?[KMGT]?)B"
    r"[ \t]*\|[ \t]*(?:algbw|tput)\w* \(Gbps\): (\d[\d.]*)[ \t]*"
    r"\|[ \t]*busbw\w* \(Gbps\): (\d+\.\d{2,})(?!\d)"
)
_SUMMARY = re.compile(
    r"[\s`]*Comm\. Op\s+Message Size\s+Count\s+Total Latency\(ms\)\s+Avg Latency\(ms\)"
)
# A second table of the same shape, which has other columns: how long each call waited for others.
_STRAGGLERS = re.compile(r"\s*Comm\. Op\s+Message Size\s+Count\s+Total comm lat\(ms\)")
_OP = re.compile(r"\s*([a-z]\w{2,40})\s*$")
_ROW = re.compile(
    r"\s*(\d[\d.]* ?[KMGT]?)B\s+(\d{1,12})\s+(\d[\d.]*)\s+(\d[\d.]*)\s+(\d[\d.]*)"
    r"\s+(\d+\.\d{2})\s*$"
)
_BENCH = re.compile(r"\s*-{2,} Performance of (\w+) on (\d{1,7}) devices -+\s*$")
# What separates two columns; each space has one way to match, however wide the columns are.
_BAR = r"\s+(?:\|\s*)?"
_BENCH_HEAD = re.compile(
    rf"\s*(?:\|\s*)?[Ss]ize(?: \(Bytes\))?{_BAR}Description{_BAR}Duration\b( \(us\))?"
    r".*(Gbps|GB/s|GBps)"
)
_BENCH_ROW = re.compile(
    rf"\s*(?:\|\s*)?(\d[\d.]*(?: [KMGT]?(?=B))?)(B)?{_BAR}(\S+){_BAR}(\d[\d.]*)(?: ?(us|ms|s))?"
    rf"{_BAR}(\d[\d.]*){_BAR}(\d+\.\d{{3}})\s*(?:\|\s*)?$"
)
_RULE = re.compile(r"\s*(?:[-_]{10,}|Breakdown with straggler effect|\|[-|\s:]+\|)\s*$")
_TIMES = {None: 1e6, "us": 1e6, "ms": 1e3, "s": 1.0}
GBIT = 1e9 / 8


class DeepspeedComm(RunParser):
    """DeepSpeed's communication logger and ds_bench: ms, and Gbps of 1e9 bits."""

    marks = ("comm op: ", "Comm. Op", "---- Performance of ")
    definitions = DEFINITIONS
    title = "DeepSpeed communication"
    _op = ""  # of the table that is open
    _kind = ""  # of it: summary or bench
    _scale = 0.0
    _is_raw = False  # bytes and microseconds, without their units
    _last = -1  # bytes of the last row of the operation

    def take(self, line: str, lineno: int) -> bool:
        if call := _CALL.match(line):
            self._add(lineno, call[1], size_of(call[3]), _ms(call[2]), call.group(4, 5))
        elif _SUMMARY.match(line):
            # a later one counts from the start again
            self._open_table("summary", lineno).note("times_with_wait")
            self._kind, self._op = "summary", ""
        elif _STRAGGLERS.match(line):
            self._kind, self._op = "stragglers", ""
        elif bench := _BENCH.match(line):
            run = self._begin(lineno, "ds_bench")
            run.operation, run.ranks = bench[1], int(bench[2])
            self._kind, self._op, self._scale = "bench", bench[1], 0.0
        else:
            return bool(self._kind) and self._table(line, lineno)
        return True

    def _table(self, line: str, lineno: int) -> bool:
        if self._kind == "stragglers":
            return any(pattern.match(line) for pattern in (_OP, _ROW, _RULE))
        if self._kind == "summary":
            op, row = _OP.match(line), _ROW.match(line)
            if op:
                self._op, self._last = op[1], -1
            elif row and self._op and self._rises(row):
                size, calls = size_of(row[1]), int(row[2])
                self._add(lineno, self._op, size, _ms(row[4]), row.group(5, 6), calls=calls)
            return bool(op or (row and self._op) or _RULE.match(line))
        if head := _BENCH_HEAD.match(line):
            self._is_raw, self._scale = head[1] is not None, GBIT if head[2] == "Gbps" else 1e9
            return True
        row = _BENCH_ROW.match(line)
        if row and None in (row[2], row[5]) and not self._is_raw:
            return False  # only --raw leaves out the units
        if row and self._scale:
            time = (number(row[4]) or 0.0) / _TIMES[row[5]]
            self._add(lineno, self._op, size_of(row[1]), time, row.group(6, 7))
        return bool(row or _RULE.match(line))

    def _rises(self, row: re.Match[str]) -> bool:
        """Tell whether a row belongs to the open operation: otherwise its name is missing."""
        size = size_of(row[1])
        self._op = self._op if size > self._last else ""
        self._last = size
        return bool(self._op)

    def _add(
        self, lineno: int, op: str, size: int, time: float, rates: tuple[str, ...], **more: int
    ) -> None:
        run = self._open(lineno)
        point: dict[str, Scalar] = {"operation": op, "size": size, **more}
        scale = self._scale if self._kind == "bench" and self._scale else GBIT
        run.add(TIME, time, point, size=size)
        for definition, rate in zip((TPUT, BUSBW), rates, strict=True):
            run.add(definition, (number(rate) or 0.0) * scale, point, size=size)


def _ms(text: str) -> float:
    return (number(text) or 0.0) / 1e3
