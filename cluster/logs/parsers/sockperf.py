"""sockperf: latency of ping-pong and under load (one way: half of a round trip), and throughput.

MBps are 2**20 bytes. https://github.com/Mellanox/sockperf
"""

import re

from cluster.logs.parsers import MIB, MICRO, ResultBuilder, RunParser, define, number

LATENCY, TAIL, LEAST, MOST, RATE, BANDWIDTH = DEFINITIONS = define(
    "sockperf",
    """
    latency (s): one way, half of a round trip: mean over the messages; printed in usec
    latency_percentile (s): one way, half of a round trip: the percentile over the messages; printed
        in usec
    min_latency (s): one way, half of a round trip: the shortest; printed in usec
    max_latency (s): one way, half of a round trip: the longest; printed in usec
    message_rate (messages/s): messages that the client sent per second
    bandwidth (B/s, one way, network): bytes of messages that the client sent per second; printed in
        MBps of 2**20 bytes
    """,
    clock="the time stamp counter of the client",
    synchronisation="the client begins when the server answers",
    warm_up="400 ms before the test, and 50 ms at its end, are not counted",
)
_START = re.compile(r"== version #(\S+) ==")
# A page may show a line, or a figure of it, in bold type.
_LINE = re.compile(r"\s*\**sockperf(?:\[\w+\] send on)?:\s?(.*?)[\s*]*$")
_LATENCY = re.compile(r"Summary: (?:Latency|Round trip) is ([\d.]+) usec\b")
_TIME = re.compile(r"-+> (?:percentile ([\d.]+)|<?(MAX|MIN)>? observation) =\s+(\d+\.\d{3})$")
_RATE = re.compile(r"Summary: Message Rate is (\d+) \[msg/sec\]")
_BANDWIDTH = re.compile(r"Summary: BandWidth is ([\d.]+) MBps \(([\d.]+) Mbps\)")
_FAILED = re.compile(r"(ERROR: .*|.*\bFailed\b.*|No messages were received from the server.*)")


class Sockperf(RunParser):
    """sockperf: half of round trips in usec, MBps of 2**20 bytes."""

    marks = ("sockperf: ",)
    definitions = DEFINITIONS

    def _reset(self) -> None:
        self._is_said = False  # whether its times are round trips, or one way
        self._is_done = False  # whether it has its summary
        self._parts = MICRO  # into which a second is cut; twice as many for a round trip

    def take(self, line: str, lineno: int) -> bool:
        match = _LINE.match(line)
        if match is None:
            return False
        text = match[1]
        if start := _START.match(text):
            self._begin(lineno, f"sockperf {start[1]}")
            return True
        if self._is_done and _LATENCY.match(text):
            self._begin(lineno)  # another test, whose first lines are missing
        run = self._open(lineno)
        if text.startswith("====> avg-rtt="):
            self._is_said, self._parts = True, 2 * MICRO
        elif failure := _FAILED.match(text):
            run.fail(failure[1])
        else:
            self._figure(run, text)
        return True

    def _figure(self, run: ResultBuilder, text: str) -> None:
        if time := _TIME.match(text):
            if not self._is_said:
                run.lack("no_mean")
            metric = {"MAX": MOST, "MIN": LEAST}.get(time[2], TAIL)
            point = {"percentile": float(time[1])} if time[1] else None
            run.add(metric, (number(time[3]) or 0.0) / self._parts, point)
        elif latency := _LATENCY.match(text):
            self._is_said = self._is_done = True
            self._parts = MICRO if "Latency is" in text else 2 * MICRO
            run.add(LATENCY, (number(latency[1]) or 0.0) / self._parts)
            if self._parts > MICRO:
                run.note("round_trips")
        elif rate := _RATE.match(text):
            run.add(RATE, float(rate[1]))
        elif bandwidth := _BANDWIDTH.match(text):
            run.add(BANDWIDTH, (number(bandwidth[1]) or 0.0) * MIB)
