"""HPL (Linpack), also NVIDIA's and Intel's: a row per size of the problem, and whether it passed.

https://www.netlib.org/benchmark/hpl
"""

import re

from cluster.core.model.value import Scalar
from cluster.logs.parsers import ResultBuilder, RunParser, define, number

RATE, TIME = DEFINITIONS = define(
    "hpl",
    """
    flops_rate (FLOP/s): (2/3 n^3 + 3/2 n^2) operations over the time, of all processes; printed in
        Gflops
    solution_time (s): factorisation and solution of the system of size n; printed in seconds
    """,
    clock="the wall clock of the process grid's first process",
    synchronisation="a barrier before the factorisation",
    warm_up="none",
    aggregation="all ranks",
)
_START = re.compile(
    r"\s*(?:HPLinpack ([\d.]+)\s|HPL-NVIDIA ([\d.]+)|.*High-Performance Linpack benchmark)"
)
_HEAD = re.compile(r"\s*T/V\s+N\s+NB\s+P\s+Q\s+Time\s+Gflops")
_ROW = re.compile(
    r"\s*([WHC]\w{2,9})\s+(\d{1,9})\s+(\d{1,6})\s+(\d{1,6})\s+(\d{1,6})\s+(\d+\.\d+)\s+"
    r"(\d\.\d+e[+-]\d\d)(?:\s+\(\s*\d\.\d+e[+-]\d\d\))?\s*$"
)
_CHECK = re.compile(r"\s*\|\|Ax-b\|\|_oo ?/.*=\s+(\S+)\s+\.+\s+(PASSED|FAILED)")
_KNOWN = re.compile(
    r"\s*(?:-{10,}|={10,}|HPL_pdgesv\(\) (?:start|end) time|"
    r"(?:N|NB|PMAP|P|Q|PFACT|NBMIN|NDIV|RFACT|BCAST|DEPTH|SWAP|L1|U|EQUIL|ALIGN)\s+:\s|"
    r"Finished\s+\d+ tests|\d+ tests (?:completed|skipped)|"
    r"End of Tests|- The (?:matrix|relative|following)|Written by|Modified by|An explanation|"
    r"The following parameter)"
)
SLACK = 0.05  # by which operations over time may differ from the printed rate
GIGA = 1e9


class Hpl(RunParser):
    """HPL: Gflops and seconds per size of the problem."""

    marks = ("HPLinpack", "Gflops", "HPL-NVIDIA", "HPL_pdgesv", "||Ax-b||")
    definitions = DEFINITIONS
    title = "HPL"
    _is_checked = False

    def take(self, line: str, lineno: int) -> bool:
        start, row, check = _START.match(line), _ROW.match(line), _CHECK.match(line)
        if row:
            return self._row(row, lineno)
        if start:
            self._is_checked = False
            if self._run is None or not self._run.empty:
                self._begin(lineno, f"HPL {start[1] or start[2] or ''}".strip())
        elif check and self._run:
            self._is_checked = True
            if check[2] == "FAILED":
                self._run.fail(f"the residual is {check[1]}: the solution is wrong")
        elif _HEAD.match(line):
            self._open(lineno)
        else:
            return self._run is not None and _KNOWN.match(line) is not None
        return True

    def _row(self, row: re.Match[str], lineno: int) -> bool:
        n, nb, p, q = map(int, row.group(2, 3, 4, 5))
        time, rate = number(row[6]) or 0.0, (number(row[7]) or 0.0) * GIGA
        operations = 2 / 3 * n**3 + 3 / 2 * n**2
        if not time or not rate or abs(operations / time / rate - 1) > SLACK:
            return False  # torn
        run = self._open(lineno)
        run.ranks = max(run.ranks, p * q)
        point: dict[str, Scalar] = {"n": n, "nb": nb, "p": p, "q": q, "variant": row[1]}
        run.add(RATE, rate, point)
        run.add(TIME, time, point)
        return True

    def _finish(self, run: ResultBuilder) -> None:
        if not run.empty and not self._is_checked:
            run.lack("solution_unknown")
        super()._finish(run)
