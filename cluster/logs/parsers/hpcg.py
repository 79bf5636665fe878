"""HPCG: the rating of its final summary, and whether it is valid.

https://www.hpcg-benchmark.org
"""

from __future__ import annotations

import re
from functools import partial
from typing import ClassVar

from cluster.core.model.measurements import Definition
from cluster.logs.parsers import GB, RunParser, number

_hpcg = partial(
    Definition,
    benchmark="hpcg",
    better="higher",
    clock="the wall clock of each rank",
    synchronisation="the iterations of the solver",
    warm_up="a reference run, which is not counted",
    aggregation="all ranks",
)
RATE = _hpcg(
    metric="flops_rate",
    unit="FLOP/s",
    what="operations of the conjugate gradient over the time, of all processes; in GFLOP/s",
)
MEMORY = _hpcg(
    metric="memory_bandwidth",
    unit="B/s",
    what="bytes read and written over the time, of all processes, as it counts them; in GB/s",
)
_VALID = re.compile(
    r"\s*(?:Final Summary::)?HPCG result is VALID with a GFLOP/s rating of\s*[=:]\s*(\d+\.\d+)\s*$"
)
_INVALID = re.compile(r"\s*(?:Final Summary::)?(HPCG result is INVALID\.?.*)")
_TOTAL = re.compile(r"\s*GB/s Summary::Raw Total B/W=(\d+\.\d+)\s*$")
_SECTION = re.compile(r"\s*[A-Z][\w /()-]{2,60}(?:::.*=.*|=)\s*$")
_RANKS = re.compile(r"\s*Machine Summary::Distributed Processes=(\d{1,7})\s*$")
_START = re.compile(r"\s*HPCG-Benchmark(?:\s+version=(\S+))?\s*$|\s*version=(\d\S+)\s*$")


class Hpcg(RunParser):
    """HPCG: the GFLOP/s of a valid result."""

    marks: ClassVar[tuple[str, ...]] = ("HPCG",)
    definitions: ClassVar[tuple[Definition, ...]] = (RATE, MEMORY)
    title: ClassVar[str] = "HPCG"

    def take(self, line: str, number_: int) -> bool:
        """Read a line of the report, most of which are `name::part=value`."""
        valid, invalid = _VALID.match(line), _INVALID.match(line)
        total, ranks, start = _TOTAL.match(line), _RANKS.match(line), _START.match(line)
        if start:
            if self._run is None or not self._run.empty:
                self._begin(number_)
        elif valid:
            self._open(number_).add(RATE, (number(valid[1]) or 0.0) * GB)
        elif invalid:
            self._open(number_).fail(invalid[1])
        elif total and self._run:
            self._run.add(MEMORY, (number(total[1]) or 0.0) * GB)
        elif ranks and self._run:
            self._run.ranks = int(ranks[1])
        else:
            return self._run is not None and _SECTION.match(line) is not None
        return True
