"""libfabric's fabtests and fi_pingpong: a row per size.

MB/sec are 1e6 bytes; in sizes such as 64k, k is 1024. `usec/xfer` of a ping-pong test is one way.
https://github.com/ofiwg/libfabric
"""

import re

from cluster.logs.parsers import (
    BINARY,
    MB,
    MICRO,
    ResultBuilder,
    RunParser,
    SizeColumn,
    define,
    number,
)

TIME, BANDWIDTH = DEFINITIONS = define(
    "fabtests",
    """
    transfer_time (s): the time over the transfers; of a test to and fro, that is one way; printed
        in usec
    bandwidth (B/s, one way, network): bytes of all transfers over the time; printed in MB/sec of
        1e6 bytes
    """,
    clock="gettimeofday or CLOCK_MONOTONIC of the client",
    synchronisation="a message of both sides before each size",
    warm_up="the iterations of -w (10 unless said otherwise; none in fi_pingpong)",
)
_HEAD = re.compile(
    r"\s*(?:name\s+)?bytes\s+(?:#sent\s+#ack|iters)\s+total\s+time\s+MB/sec\s+usec/xfer"
)
_SIZE = re.compile(r"(\d{1,15}(?:\.\d)?)([kmg]?)")
_COMMAND = re.compile(r"(?:^|[/\s])(fi_(?:\w*(?:pingpong|bw|tagged_bw|rma\w*|lat)\w*))(?:\s+-.*)?$")
_FAILED = re.compile(
    r"\s*((?:fi_\w+|ft_\w+|ERROR:? ?)\(.*\).*ret=-\d+ \(.*\)|\w+\(\): \S+:\d+, ret=-\d+.*)"
)
SLACK = 0.02  # of the rate: size over time, both rounded
RESOLUTION = 0.01  # MB/sec and usec, to which they are printed


# What -m prints for programs: a row with its names; usec/xfer had no comma behind it at first.
_NAMED_ROW = re.compile(
    r"[\s-]*\{ ?xfer_size: (\d{1,15}), iterations: \d+, total: \d+, time: [\d.]+, "
    r"MB/sec: (\d+\.\d+), usec/xfer: (\d+\.\d{1,6}),? ?Mxfers/sec: \d+\.\d+ ?\}\s*$"
)
COLUMNS = (SizeColumn(TIME, over=MICRO, moved=True), SizeColumn(BANDWIDTH, MB, moved=True))


class Fabtests(RunParser):
    """fabtests (fi_rdm_pingpong, fi_rma_bw, ...): usec per transfer, MB/sec of 1e6 bytes."""

    marks = ("usec/xfer",)
    definitions = DEFINITIONS
    _columns = 0
    _command = ""

    def take(self, line: str, lineno: int) -> bool:
        if row := _NAMED_ROW.match(line):
            return self._figures(self._open(lineno), int(row[1]), row[2], row[3])
        if _HEAD.match(line):
            self._begin(lineno, self._command)
            self._columns, self._command = len(line.split()), ""
        elif command := _COMMAND.search(line):
            self._command = command[1]
        elif self._run and (failed := _FAILED.match(line)):
            self._run.fail(failed[1])
        else:
            return self._run is not None and self._row(self._run, line.split())
        return True

    def _row(self, run: ResultBuilder, cells: list[str]) -> bool:
        if len(cells) != self._columns or not cells[-4].endswith("s"):
            return False
        match = _SIZE.fullmatch(cells[-8] if cells[-6].startswith("=") else cells[-7])
        size = round(float(match[1]) * BINARY[match[2].upper()]) if match else -1
        if size < 0 or number(cells[-1]) is None:
            return False
        return self._figures(run, size, cells[-3], cells[-2])

    def _figures(self, run: ResultBuilder, size: int, rate_: str, time_: str) -> bool:
        rate, time = number(rate_), number(time_)
        if rate is None or time is None:
            return False
        expected = size / time if time else 0.0  # a size such as 1.5k is rounded
        slack = SLACK + RESOLUTION / time if time else 1.0
        if abs(rate - expected) > RESOLUTION + slack * max(expected, rate):
            return False
        for column, value in zip(COLUMNS, (time, rate), strict=True):
            column.add(run, value, {"size": size}, size)
        return True
