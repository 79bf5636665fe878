"""ucx_perftest: the `Final:` row of each test, or the last row of versions up to 1.8.

MB/s are 2**20 bytes. The latency of a ping-pong test is one way; that of a bandwidth test is the
time that the processor is busy with a message. https://github.com/openucx/ucx
"""

import re

from cluster.core.model.value import Scalar
from cluster.logs.parsers import CUT, MIB, MICRO, ResultBuilder, RunParser, count, define, numbers

LATENCY, MEDIAN, OVERHEAD, BANDWIDTH, RATE = DEFINITIONS = define(
    "ucx_perftest",
    """
    latency (s): one way of a message to and fro, mean over all iterations; printed in usec
    median_latency (s): one way of a message to and fro, median of the iterations; printed in usec
    overhead (s): the time of one operation of a stream of messages, mean over all; printed in usec
    bandwidth (B/s, one way, network): bytes one way over the time, of all iterations; printed in
        MB/s of 2**20 bytes
    message_rate (messages/s): messages per second, of all iterations
    """,
    clock="ucs_get_accurate_time of the client",
    synchronisation="a barrier of both sides before the test",
    warm_up="the iterations of -w (10000 unless said otherwise)",
)

_NAME = re.compile(r"\s*=+ (\w+) =+\s*$|\|\s*(?:API|Test):\s+(.*?)\s*\|")
_SIZE = re.compile(r"\|\s*Message size:\s+(\d{1,18})\s*\|")
_MEMORY = re.compile(r"\|\s*(Send|Recv) memory:\s+(\S+)\s*\|")
_KIND = re.compile(r"\|\s*\|?\s*(?:\|\s*)?(latency|overhead) \(usec\)")
_OLD = re.compile(r"\s*\|\s*(?:Test\s*\|\s*)?# iterations\s*\|\s*(?:typical|[\d.]+%ile)\s*\|")
_OLD_ROW = re.compile(r"\s*(\d+(?:\s+\d+(?:\.\d+)?){7})\s*$")
_ROW = re.compile(r"\s*(Final:|\[thread \d{1,4}\])\s+(\d[\d. ]*\d)\s*$")
_BORDER = re.compile(r"\s*\+-[-+]+\+\s*$")
_KNOWN = re.compile(r"\s*(?:Waiting for connection|Accepted connection from|=+ \w+ =+)\s*")
_FAILED = re.compile(r".*\bUCX\s+ERROR\s+(.*)|.*\bFailed to run test: (.*)")
CELLS = 8  # iterations; median, mean, overall time; rate and messages, each mean and overall
ROUND = 1000  # fewer iterations take less than the second after which a row is printed
SLACK = 0.05  # of the messages per second, whose time is rounded
UNFINISHED = "its final row is missing: it was stopped, or the log is cut off"


class UcxPerftest(RunParser):
    """ucx_perftest: latency in usec one way, MB/s of 2**20 bytes, of all iterations."""

    marks = ("# iterations", "[thread ", "Final:")
    has_rows = True
    definitions = DEFINITIONS
    _is_boxed = False

    def _reset(self) -> None:
        self._params: dict[str, Scalar] = {}
        self._kind = ""
        self._last: list[float] | None = None  # the last row of an old table, which is its result
        self._is_old = False
        self._is_begun = False  # whether the open test has rows of intermediate results

    def take(self, line: str, lineno: int) -> bool:
        # Other tables have bars, too, but no border above them.
        self._is_boxed = bool(_BORDER.match(line)) or (self._is_boxed and "|" in line)
        if row := _ROW.match(line):
            return self._row(row, lineno)
        if self._is_old and (old := _OLD_ROW.match(line)):
            self._last = numbers(old[1].split())
        elif kind := _KIND.search(line):
            self._start(lineno, "")
            self._kind = kind[1]
        elif _OLD.match(line) and self._run:
            self._is_old = True
        elif self._is_boxed or "|" in line or "==" in line:
            return self._box(line, lineno)
        elif self._run and (failure := _FAILED.match(line)):
            self._run.fail((failure[1] or failure[2]).strip())
        else:
            return self._run is not None and _KNOWN.match(line) is not None
        return True

    def _start(self, lineno: int, title: str) -> ResultBuilder:
        """Begin a test if there were rows since the last one began."""
        run = self._open(lineno)
        if not run.empty or self._last or self._is_begun:
            run = self._begin(lineno)
        run.title = title or run.title
        return run

    def _box(self, line: str, lineno: int) -> bool:
        name, size, memory = _NAME.match(line), _SIZE.match(line), _MEMORY.match(line)
        if self._run is None and not name:
            return False
        if name and ("bw" in (name[1] or "") or "lat" in (name[1] or "") or name[2]):
            self._start(lineno, name[1] or name[2])
        elif size:
            self._params["size"] = int(size[1])
        elif memory and memory[2] != "host":
            self._params[f"{memory[1].lower()}_memory"] = memory[2]
        return self._run is not None and (self._is_boxed or _KNOWN.match(line) is not None)

    def _row(self, row: re.Match[str], lineno: int) -> bool:
        cells = row[2].split()
        values = numbers(cells)
        if values is None or len(values) != CELLS or not self._kind or count(cells[0]) is None:
            return False
        run = self._open(lineno)
        if row[1] == "Final:":  # the rows before it are intermediate results
            self._add(run, values)
        else:
            self._is_begun = True
        return True

    def _add(self, run: ResultBuilder, values: list[float]) -> None:
        size = int(self._params.get("size", 0))
        point = dict(self._params)
        if self._kind == "latency":
            run.add(MEDIAN, values[1] / MICRO, point, size=size)
            run.add(LATENCY, values[3] / MICRO, point, size=size)
        else:
            run.add(OVERHEAD, values[3] / MICRO, point, size=size)
            run.add(BANDWIDTH, values[5] * MIB, point, size=size)
        run.add(RATE, values[7], point, size=size)

    def _end(self) -> None:
        iterations = self._last[0] if self._last else 0.0
        # a result, not one of the rows of each second before it: people ask for round numbers
        is_final = iterations < ROUND or iterations % ROUND == 0
        if self._run is not None and self._last and is_final:
            # add the result of an old table, which calls its times latency in tests of bandwidth
            share = self._last[3] / MICRO * self._last[7]
            for self._kind, expected in (("latency", 0.5), ("overhead", 1.0)):
                if abs(share / expected - 1) < SLACK:
                    self._add(self._run, self._last)
        super()._end()

    def _finish(self, run: ResultBuilder) -> None:
        if run.empty:
            run.lack_rows(UNFINISHED if self._is_begun else CUT, "rows with a column per heading")
