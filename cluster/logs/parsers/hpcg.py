"""HPCG: the rating of its final summary, and whether it is valid.

https://www.hpcg-benchmark.org
"""

import re

from cluster.core.model.measurements import Definition
from cluster.logs.parsers import GB, RunParser, define, number

RATE, MEMORY = DEFINITIONS = define(
    "hpcg",
    """
    flops_rate (FLOP/s): operations of the conjugate gradient over the time, of all processes; in
        GFLOP/s
    memory_bandwidth (B/s): bytes read and written over the time, of all processes, as it counts
        them; in GB/s
    """,
    clock="the wall clock of each rank",
    synchronisation="the iterations of the solver",
    warm_up="a reference run, which is not counted",
    aggregation="all ranks",
)
_NUMBER = r"(\d{1,12}(?:\.\d+)?(?:e[+-]?\d+)?)"
# The text file has `name::part=value`, the YAML file of older versions `part: value` below a name.
# grep names the file of each rating, which is another run.
_VALID = re.compile(
    r"\s*(?:\S{1,200}:)?(?:Final Summary::)?HPCG result is VALID with a GFLOP/s rating of"
    rf"\s*+[=:]?\s*+{_NUMBER}\s*+$"
)
_INVALID = re.compile(r"\s*(?:Final Summary::)?(HPCG result is:?\s*INVALID\.?.*)")
_TOTAL = re.compile(rf"\s*(?:GB/s Summary::)?Raw Total B/W\s*[=:]\s*{_NUMBER}\s*$")
_RANKS = re.compile(r"\s*(?:Machine Summary::)?Distributed Processes\s*[=:]\s*(\d{1,7})\s*$")
_START = re.compile(r"\s*(?:HPCG-Benchmark(?:\s+version=\S+)?|Machine Summary\s*[=:])\s*$")
_KNOWN = re.compile(
    r"\s*(?:version=\d\S*|\S+ version: V?\d\S*|Release date[=:].*|#{4,} .* #{4,}[=:]"
    r"|_{4,} .* _{4,}:|[A-Z][\w /()-]{2,60}(?:::.*=.*|=)"
    r"|[\w /]+ (?:Summary|Information|Dimensions|Tests|Overheads|Variations): ?)\s*$"
    r"|\s*(?:(?:(?:Raw|Min|Max|Avg) )?(?:DDOT|WAXPBY|SpMV|MG|ALL_reduce|Total|Read|Write)"
    r"|Threads per|Optimization|HPCG 2\.4)\b[^:=]{0,60}: \d\S*\s*$"
)


class Hpcg(RunParser):
    """HPCG: the GFLOP/s of a valid result."""

    marks = ("HPCG", "Raw Total B/W")
    definitions = DEFINITIONS
    title = "HPCG"

    def __init__(self) -> None:
        super().__init__()
        self._said: set[Definition] = set()  # by the open report

    def _add(self, definition: Definition, text: str, lineno: int) -> None:
        """Add a figure, which a report has once: again, it is of one whose head is missing."""
        if definition in self._said:
            self._begin(lineno)
        self._open(lineno).add(definition, (number(text) or 0.0) * GB)
        self._said.add(definition)

    def _end(self) -> None:
        super()._end()
        self._said.clear()

    def take(self, line: str, lineno: int) -> bool:
        valid, invalid = _VALID.match(line), _INVALID.match(line)
        total, ranks = _TOTAL.match(line), _RANKS.match(line)
        if _START.match(line):
            if self._run is None or not self._run.empty:
                self._begin(lineno)
        elif valid:
            self._add(RATE, valid[1], lineno)
        elif invalid:
            self._open(lineno).fail(invalid[1])
        elif total:
            self._add(MEMORY, total[1], lineno)
        elif ranks and self._run:
            self._run.ranks = int(ranks[1])
        else:
            return self._run is not None and _KNOWN.match(line) is not None
        return True
