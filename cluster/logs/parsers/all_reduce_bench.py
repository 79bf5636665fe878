"""all_reduce_bench.py of PyTorch, in its old and its new form, and all_gather_object's table.

GBps are 1e9 bytes, Gbps 1e9 bits. A payload of 4GB is 4e9 bytes in the title of the old form, and
4 * 2**30 bytes in the table of the new one, which newer versions call 4GiB.
https://github.com/stas00/ml-engineering/tree/master/network/benchmarks
"""

import re

from cluster.core.model.value import Scalar
from cluster.logs.parsers import BINARY, GB, RunParser, SizeColumn, define, number

BUSBW, ALGBW = DEFINITIONS = define(
    "all_reduce_bench",
    """
    busbw (B/s, one way, collective): bus bandwidth of all_reduce: algorithm bandwidth times
        2(n-1)/n of n ranks
    algbw (B/s): algorithm bandwidth: the size over the time of all_reduce
    """,
    clock="CUDA events of each rank (time.perf_counter in old versions)",
    synchronisation="a barrier before each trial",
    warm_up="5 calls that are not counted (the first of the trials in old versions)",
    aggregation="mean of ranks",
)

_TITLE = re.compile(
    r"\s*The (?:average bandwidth of all_reduce "
    r"(?:with a ([\d.]+)([KMG]?)B payload|over (\d+) ranks)"
    r"|([\d.]+)([KMG]?)iB payload bandwidth of all_reduce over (\d+) ranks) \((.*)\):\s*$"
)
_RANKS = re.compile(r"\b(\d{1,7}) ranks\b")
_HEAD = re.compile(r"\s*\|(?:\s*payload\s*\|)?\s*busbw\s*\|\s*algbw\s*\|\s*$")
_RULE = re.compile(r"\s*\|[\s:|-]+\|\s*$")
_ROW = re.compile(
    r"\s*\|(?:\s*(\d{1,9}(?:\.\d)?)([KMGT]?)i?B\s*\|)?\s*(\d+\.\d+)GBps\s*\|\s*(\d+\.\d+)GBps\s*\|\s*$"
)
_FIGURE = re.compile(r"\s*(algbw|busbw): (\d+\.\d+) (GBps|Gbps)(?: \((\d+\.\d+) Gbps\))?\s*$")
_KNOWN = re.compile(
    r"\s*(?:Environment:|- software:|- hardware:|ignore me \d|\*{3} Plotting|0 data size:"
    r"|\d+:?\s*$|Legend: |1GBps = |Elapsed time: |(?:CPU|GPU Memory) Usage: )"
)
_THOUSANDS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
_SCALES = {"GBps": GB, "Gbps": GB / 8}
_RATES = {"busbw": BUSBW, "algbw": ALGBW}

COLUMNS = SizeColumn(BUSBW, GB, moved=True), SizeColumn(ALGBW, GB, moved=True)


class AllReduceBench(RunParser):
    """all_reduce_bench.py: bus and algorithm bandwidth per payload, in GBps of 1e9 bytes."""

    marks = ("bandwidth of all_reduce", "| payload |", "GBps")
    definitions = DEFINITIONS

    def _reset(self) -> None:
        self._params: dict[str, Scalar] = {}
        self._is_table = False

    def take(self, line: str, lineno: int) -> bool:
        if title := _TITLE.match(line):
            run = self._begin(lineno)
            run.operation = "all_reduce"
            ranks = _RANKS.search(title[0])
            run.ranks = int(ranks[1]) if ranks else 0
            if title[1]:
                self._params["size"] = round(float(title[1]) * _THOUSANDS[title[2]])
            elif title[4]:
                self._params["size"] = round(float(title[4]) * BINARY[title[5]])
        elif _HEAD.match(line) and (self._run or "payload" in line):
            self._open(lineno).operation = "all_reduce"
            self._is_table = True
        elif self._is_table and (row := _ROW.match(line)):
            size = int(self._params.get("size", 0))  # if each row is a trial of one payload
            size = round(float(row[1]) * BINARY[row[2]]) if row[1] else size
            for column, cell in zip(COLUMNS, row.group(3, 4), strict=True):
                column.add(self._open(lineno), number(cell) or 0.0, {"size": size}, size)
        elif self._run and (figure := _FIGURE.match(line)):
            column = SizeColumn(_RATES[figure[1]], _SCALES[figure[3]], moved=True)
            size = int(self._params.get("size", 0))
            column.add(self._run, number(figure[2]) or 0.0, self._params, size)
        else:
            is_rule = self._is_table and _RULE.match(line)
            return self._run is not None and bool(is_rule or _KNOWN.match(line))
        return True
