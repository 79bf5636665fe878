"""The lines that `launch_mpi_test.py` prints, and those of its allreduce.

`Process 1 transferred 100 MB in 23.1 ms (4323.8 MB/sec)`: MB is 1e6 bytes, one message one way,
timed by each rank separately: by rank 0 until its buffer is free again, by rank 1 in its receive.
"""

import re

from cluster.logs.parsers import MB, MILLI, RunParser, define, number

SLACK = 0.02  # by which the printed rate may differ: times are printed to 0.1 ms
ROUNDING = 0.05  # ms

(TIME,) = DEFINITIONS = define(
    "mpi_test",
    """
    oneway_time (s, one way, network): one message, one way, as the rank timed its own half of it;
        printed in ms
    """,
    clock="time.perf_counter of the rank",
    synchronisation="none between the messages",
    warm_up="none",
    aggregation="each rank",
)

_LINE = re.compile(
    r"\s*(?:\[\s*\d+%\] )?Process (\d{1,6}) transferred ([\d.]+) MB in ([\d.]+) ms"
    r" \(([\d.]+) MB/sec\)"
)
_KNOWN = re.compile(
    r"\s*(?:Job ready for connection|\.\./connect |cluster connect |Alternatively run|tmux a\b)"
)


class MpiTest(RunParser):
    """launch_mpi_test.py: one-way times of each rank; MB is 1e6 bytes."""

    marks = (" transferred ",)
    definitions = DEFINITIONS
    title = "launch_mpi_test.py"

    def take(self, line: str, lineno: int) -> bool:
        match = _LINE.match(line)
        if match is None:
            return _KNOWN.match(line) is not None
        size, time, rate = (number(match[group]) or 0.0 for group in (2, 3, 4))
        if not (size and time and rate):
            return False
        expected = size / time * MILLI  # of figures that are rounded
        if abs(rate - expected) > (SLACK + ROUNDING / time) * expected:
            return False
        point = {"size": round(size * MB)}
        rank = int(match[1])
        self._open(lineno).add(TIME, time / MILLI, point, rank=rank, size=point["size"])
        return True
