"""The lines that `launch_mpi_test.py` prints, and those of its allreduce.

`Process 1 transferred 100 MB in 23.1 ms (4323.8 MB/sec)`: MB is 1e6 bytes, one message one way,
timed by each rank separately: by rank 0 until its buffer is free again, by rank 1 in its receive.
"""

from collections.abc import Mapping

from cluster.logs.parsers import MB, MILLI, SizeColumn, TableParser, define, number

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


class MpiTest(TableParser):
    """launch_mpi_test.py: one-way times of each rank; MB is 1e6 bytes."""

    marks = (" transferred ",)
    definitions = DEFINITIONS
    title = "launch_mpi_test.py"
    needs_start = False
    rows = r"""
        \s*(?:\[ *\d+%\] )?Process (?P<_rank>\d{1,6}) transferred (?P<size>\d{1,12}(?:\.\d+)? MB) in
            \s(?P<oneway_time>[\d.]+) ms \((?P<_rate>[\d.]+) MB/sec\)
    """
    columns = (SizeColumn(TIME, over=MILLI),)
    remarks = (
        r"\s*(?:Job ready for connection|\.\./connect |cluster connect |Alternatively run|tmux a\b)"
    )

    def agrees(self, size: int, row: Mapping[str, str]) -> bool:
        time, rate = number(row["oneway_time"]), number(row["_rate"])
        if not (size and time and rate):
            return False
        expected = size / MB / time * MILLI  # of figures that are rounded
        return abs(rate - expected) <= (SLACK + ROUNDING / time) * expected
