"""libfabric's fabtests and fi_pingpong: a row per size.

MB/sec are 1e6 bytes; in sizes such as 64k, k is 1024. `usec/xfer` of a ping-pong test is one way.
https://github.com/ofiwg/libfabric
"""

import re
from collections.abc import Mapping

from cluster.logs.parsers import MB, MICRO, ResultBuilder, SizeColumn, TableParser, define, number

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
_COMMAND = re.compile(r"(?:^|[/\s])(fi_(?:\w*(?:pingpong|bw|tagged_bw|rma\w*|lat)\w*))(?:\s+-.*)?$")
SLACK = 0.02  # of the rate: size over time, both rounded
RESOLUTION = 0.01  # MB/sec and usec, to which they are printed


class Fabtests(TableParser):
    """fabtests (fi_rdm_pingpong, fi_rma_bw, ...): usec per transfer, MB/sec of 1e6 bytes."""

    marks = ("usec/xfer",)
    definitions = DEFINITIONS
    start = (
        r"\s*(?:name\s+)?bytes\s+(?:#sent\s+(?P<_acks>#ack)|iters)\s+total\s+time\s+MB/sec\s+"
        r"usec/xfer"
    )
    # The second is what -m prints for programs: usec/xfer had no comma behind it at first.
    rows = r"""
        \s*(?:[^\d\s]\S*\s+)?(?P<size>\d{1,15}(?:\.\d)?[kmg]?)\s+\S+\s+(?P<_ack>=\S*\s+)?\S+
            \s+\S*s\s+(?P<bandwidth>\d\S*)\s+(?P<transfer_time>\d\S*)\s+\d\S*\s*$
        [\s-]*(?P<_named>\{) ?xfer_size: (?P<size>\d{1,15}), iterations: \d+, total: \d+,
            \stime: [\d.]+, MB/sec: (?P<bandwidth>\d+\.\d+), usec/xfer:
            \s(?P<transfer_time>\d+\.\d{1,6}),? ?Mxfers/sec: \d+\.\d+ ?\}\s*$
    """
    columns = (SizeColumn(TIME, over=MICRO), SizeColumn(BANDWIDTH, MB))
    failure = (
        r"\s*((?:fi_\w+|ft_\w+|ERROR:? ?)\(.*\).*ret=-\d+ \(.*\)|\w+\(\): \S+:\d+, ret=-\d+.*)"
    )
    _command = ""

    def take(self, line: str, lineno: int) -> bool:
        if "fi_" in line and (command := _COMMAND.search(line)):
            self._command = command[1]
            return True
        if "xfer_size: " in line and self.read(line):
            self._open(lineno)  # it needs no header
        return super().take(line, lineno)

    def _begin(self, lineno: int, title: str = "") -> ResultBuilder:
        command, self._command = self._command, ""
        return super()._begin(lineno, title or command)

    def agrees(self, size: int, row: Mapping[str, str]) -> bool:
        if "_named" not in row and ("_ack" in row) != ("_acks" in self._heading):
            return False
        time, rate = number(row["transfer_time"]) or 0.0, number(row["bandwidth"]) or 0.0
        expected = size / time if time else 0.0  # a size such as 1.5k is rounded
        slack = SLACK + RESOLUTION / time if time else 1.0
        return abs(rate - expected) <= RESOLUTION + slack * max(expected, rate)
