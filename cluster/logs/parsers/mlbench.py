"""mlbench's p2p.py and collective scripts: a JSON line per length, and the lines in between.

Its "MB" is 2**20 bytes. The receiver timed one message, one way; the first iteration is a warm-up
and is kept separately. `elapsed` of the collectives is seconds per call: size over time is
algorithm bandwidth.
"""

import re

import msgspec

from cluster.logs.parsers import MIB, ResultBuilder, RunParser, decode, define, number

FLOAT = 4  # bytes of an element
SLACK = 0.01  # by which bytes over time may differ from the printed rate

ONE_WAY, FIRST, MEAN, COLLECTIVE, FIRST_COLLECTIVE = DEFINITIONS = define(
    "mlbench",
    """
    oneway_bandwidth (B/s, one way, network): one blocking message, timed by the receiver; printed
        in MB/s of 2**20 bytes
    first_bandwidth (B/s): the first message, which pays for connections; printed in MB/s of 2**20
        bytes
    mean_bandwidth (B/s, one way, network): what the program printed at its end, the warm-up
        included; in MB/s of 2**20 bytes
    collective_time (s): one collective call; printed in seconds
    first_collective_time (s): the first collective call, which pays for connections; printed in
        seconds
    """,
    clock="time.time of the rank that wrote the file",
    synchronisation="torch.cuda.synchronize where there is a GPU, and a barrier",
    warm_up="the first iteration, which is kept under a name of its own",
)

_SUMMARY = re.compile(r"\s*Transfer ([\d.]+) MB in ([\d.e+-]+) seconds\. \[([\d.]+) MB/s\]")
_KNOWN = re.compile(r"\s*(?:Vector Size=|Sending vector: \d+-th iteration)")


class MlBench(RunParser):
    """mlbench p2p.py: every message's rate; its MB is 2**20 bytes."""

    marks = (*("Throughput (MB/s)", '"elapsed"', "Sending vector", "Transfer "),)
    definitions = DEFINITIONS
    title = "p2p.py"

    def take(self, line: str, lineno: int) -> bool:
        match = _SUMMARY.match(line)
        if match is None:
            return _KNOWN.match(line) is not None
        length, time, rate = (number(match[group]) or 0.0 for group in (1, 2, 3))
        if not length or not time or abs(length / time - rate) > SLACK * rate:
            return False
        size = round(length * MIB)
        self._begin(lineno).add(MEAN, rate * MIB, {"size": size}, size=size)
        return True

    def take_document(self, text: str, lineno: int) -> bool:
        report = decode(text, _MlBenchJson)
        if report is None or not report.values:
            return False
        report.fill(self._begin(lineno, "" if report.throughput else "collective"))
        return True


class _MlBenchJson(msgspec.Struct):
    length: int
    throughput: list[float] = msgspec.field(default_factory=list, name="Throughput (MB/s)")
    elapsed: list[float] = []
    n_iters: int = 0

    @property
    def values(self) -> list[float]:
        return self.throughput or self.elapsed

    def fill(self, builder: ResultBuilder) -> None:
        size = self.length * FLOAT
        first, second = (FIRST, ONE_WAY) if self.throughput else (FIRST_COLLECTIVE, COLLECTIVE)
        scale = MIB if self.throughput else 1.0
        for value in self.values[1:]:
            builder.add(second, value * scale, {"size": size}, size=size)
        builder.add(first, self.values[0] * scale, {"size": size}, size=size)
        builder.note("first_is_warm_up", len(self.values), second.metric, first.metric)
        if self.n_iters and self.n_iters != len(self.values):
            builder.note("some_iterations", len(self.values), self.n_iters)
