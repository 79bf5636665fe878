"""netperf: streams (10^6 bits per second) and request/response tests, as tables or as `KEY=value`.

The second row of a UDP stream is what arrived. With `-f M`, MBytes are 2**20 bytes.
https://hewlettpackard.github.io/netperf
"""

import re

from cluster.core.model.value import Scalar
from cluster.logs.parsers import (
    BINARY,
    MICRO,
    ResultBuilder,
    RunParser,
    count,
    define,
    number,
    numbers,
)
from cluster.logs.tcp import is_within_host

STREAM, SENT, LOST, RATE, OMNI, TIME = DEFINITIONS = define(
    "netperf",
    """
    stream_bandwidth (B/s, one way, TCP): bytes that arrived over the time; printed in 10^6 bits per
        second
    sent_bandwidth (B/s): bytes of UDP that were sent over the time; printed in 10^6 bits per second
    derived_lost (%, lower): datagrams of UDP that did not arrive, in percent of those sent
    transaction_rate (transactions/s): requests with their responses per second, one after another
    throughput (B/s): of an omni test: bytes of the side that its direction names; of UDP, some may
        be lost
    transaction_time (s): a request with its response, or a send call: the statistic over all; in
        microseconds
    """,
    clock="gettimeofday of the client",
    synchronisation="the test begins when the control connection is set up",
    warm_up="none",
)
_TITLE = re.compile(
    r"(?:^\s*|done|[$;]\s*)(?:MIGRATED )?((?:TCP|UDP|SCTP|UNIX|DLPI)[ _]"
    r"(?:STREAM|MAERTS|SENDFILE|REQUEST/RESPONSE|Connect/Request/Response|RR|CRR)"
    r"|OMNI(?: [A-Z]\w+(?:\|\w+)?)?) TEST\b"
)
_UNITS = re.compile(r"\s*bytes\s.*?(?:10\^(\d)(bits|bytes)|([KMG])Bytes) ?/s")
# The first line of a table, whose title may be missing.
_TABLES = (
    (re.compile(r"\s*Socket\s+Message\s+Elapsed\s+Messages\b"), "UDP STREAM"),
    (re.compile(r"\s*Recv\s+Send\s+Send(?:\s+Utilization\b.*)?\s*$"), "STREAM"),
    (re.compile(r"\s*Local\s*/\s*Remote\s*$"), "REQUEST/RESPONSE"),
)
_HEAD = re.compile(
    r"\s*(?:Socket\s+(?:Socket\s+)?(?:Message|Size)|Size\s+Size|Send\s+Recv\s+Size|"
    r"bytes\s+[Bb]ytes|Throughput\s+Throughput|Units\s|"
    r"\S+ \([^)]*\) port \d+ AF_INET)"  # the rest of a title that a mail has broken
)
_KEY = re.compile(r"\s*([A-Z][A-Z0-9_]{2,40})=(\S+)\s*$")
_LATENCY = re.compile(r"(MIN|MAX|MEAN|P\d\d)_LATENCY")
_CELLS = re.compile(r"\s*(\d[\d.]*)\s+(10\^\dbits/s|[KMG]Bytes/s|Trans/s)(?:\s|$)")
_UNIT = re.compile(r"(?:10\^(\d)(bits|bytes)|([KMG])Bytes)/s")
_LATENCY_HEAD = re.compile(r"(Minimum|Maximum|Mean|(\d\d)th Percentile) Latency Microseconds")
_STATISTICS = {"Minimum": "min", "Maximum": "max", "Mean": "mean"}
_FAILED = re.compile(r".*((?:establish control|netperf: |recv_response: |send_\w+: |catcher: ).*)")
RR, STREAMS, DATAGRAMS, ARRIVED = 6, 5, 6, 4  # cells of a row
PERCENT = 100.0


class Netperf(RunParser):
    """netperf: streams in 10^6 bits per second, transactions per second."""

    marks = (*(" TEST from ", " TEST to ", "netperf", "Elapsed      Messages"),)
    has_rows = True
    definitions = DEFINITIONS

    def _reset(self) -> None:
        self._scale, self._rows, self._messages = 0.0, 0, 0.0
        self._fields: dict[str, str] = {}  # the throughput and its unit
        self._heads: list[str] = []  # of the columns that -o asks for, one row of which follows

    def take(self, line: str, lineno: int) -> bool:
        is_row = line.lstrip()[:1].isdigit()
        title = _TITLE.search(line) if " TEST" in line else None
        tables = () if is_row or title else _TABLES
        table = next((name for head, name in tables if head.match(line)), "")
        if title or (table and (self._run is None or self._rows)):
            self._begin(lineno, title[1] if title else table)
            self._ends(line)
            return True
        if self._run is None:
            return False
        if is_row and "AF_INET" not in line:
            return self._row(self._run, line, lineno)
        return self._said_of(self._run, line, table)

    def _said_of(self, run: ResultBuilder, line: str, table: str) -> bool:
        self._ends(line)
        if unit := _UNITS.match(line):
            self._scale = _scale(unit)
        elif "," in line and "Throughput Units" in line:
            self._heads = [head.strip() for head in line.split(",")]
        elif table or _HEAD.match(line):
            return True
        elif key := _KEY.match(line):
            self._key(run, key[1], key[2])
        elif failure := _FAILED.match(line):
            run.fail(failure[1])
        else:
            return False
        return True

    def _ends(self, line: str) -> None:
        if self._run is not None and "AF_INET" in line and is_within_host(line):
            self._run.hosts = 1
            self._run.note("within_host")

    def _key(self, run: ResultBuilder, name: str, text: str) -> None:
        """Read what `-k` prints; the unit may come before the throughput or after it."""
        latency, value = _LATENCY.fullmatch(name), number(text)
        if latency and value is not None:
            run.add(TIME, value / MICRO, {"statistic": latency[1].lower()})
        if name in ("THROUGHPUT", "THROUGHPUT_UNITS"):
            self._fields[name] = text
            if len(self._fields) > 1:
                self._throughput(run, self._fields["THROUGHPUT"], self._fields["THROUGHPUT_UNITS"])

    def _read_selection(self, run: ResultBuilder, cells: list[str]) -> bool:
        """Read the row of the columns that were asked for: -o prints them with commas."""
        heads, self._heads = self._heads, []
        fields = {head: cell.strip() for head, cell in zip(heads, cells, strict=False)}
        text, units = fields.get("Throughput", ""), fields.get("Throughput Units", "")
        if len(cells) != len(heads) or not self._throughput(run, text, units):
            return False
        for head, cell in fields.items():
            latency, value = _LATENCY_HEAD.fullmatch(head), number(cell)
            if latency and value is not None:
                name = f"p{latency[2]}" if latency[2] else _STATISTICS[latency[1]]
                run.add(TIME, value / MICRO, {"statistic": name})
        return True

    def _throughput(self, run: ResultBuilder, text: str, units: str) -> bool:
        value, unit = number(text), _UNIT.fullmatch(units)
        if value is None or not (unit or units == "Trans/s"):
            return False
        run.add(OMNI if unit else RATE, value * (_scale(unit) if unit else 1), {"test": run.title})
        return True

    def _row(self, run: ResultBuilder, line: str, lineno: int) -> bool:
        if self._heads and self._read_selection(run, line.split(",")):
            return True
        cells, row = line.split(), _CELLS.match(line)
        if run.title.startswith("OMNI"):
            return row is not None and self._throughput(run, row[1], row[2])
        values = numbers(cells)
        if values is None or count(cells[0]) is None:
            return False
        if "equest" in run.title.lower() or run.title.endswith("RR"):
            result = self._request(run, cells, values)
        elif run.title.startswith("UDP"):
            result = self._datagrams(run, cells, values, lineno)
        else:
            result = self._stream(run, cells, values)
        self._rows += result
        return result

    def _request(self, run: ResultBuilder, cells: list[str], values: list[float]) -> bool:
        """Read the rate of requests; the row below it shows the buffers of the other side."""
        if self._rows:
            return len(cells) == 2 and all(count(cell) is not None for cell in cells)  # noqa: PLR2004
        if len(cells) not in (RR, RR + 4):
            return False
        params: dict[str, Scalar] = {"request": int(values[2]), "response": int(values[3])}
        run.add(RATE, values[5], {"test": run.title, **params})
        return True

    def _stream(self, run: ResultBuilder, cells: list[str], values: list[float]) -> bool:
        if len(cells) not in (STREAMS, STREAMS + 4) or not self._scale or self._rows:
            return False
        size = int(values[2])
        run.add(STREAM, values[4] * self._scale, {"test": run.title, "size": size}, size=size)
        return True

    def _datagrams(
        self, run: ResultBuilder, cells: list[str], values: list[float], lineno: int
    ) -> bool:
        """Read what was sent, or what arrived; two more cells are the load of the processor."""
        is_sent = len(cells) in (DATAGRAMS, DATAGRAMS + 2) and count(cells[1]) is not None
        if not self._scale:
            return False
        if self._rows != 1 and is_sent:
            if self._rows:  # another test, without its header: it has the same unit
                scale, run = self._scale, self._begin(lineno, run.title)
                self._scale = scale
            self._size, self._messages = int(values[1]), values[3]
            run.add(SENT, values[5] * self._scale, {"test": run.title, "size": self._size})
            return True
        if self._rows != 1 or len(cells) not in (ARRIVED, ARRIVED + 2):
            return False
        point: dict[str, Scalar] = {"test": run.title, "size": self._size}
        run.add(STREAM, values[3] * self._scale, point)
        if self._messages:
            run.add(LOST, PERCENT * max(0.0, 1 - values[2] / self._messages), point)
        return True


def _scale(unit: re.Match[str]) -> float:
    """Return how many bytes per second a unit is: a power of ten of bits or bytes, or of 1024."""
    if unit[3]:
        return BINARY[unit[3]]
    return 10.0 ** int(unit[1]) / (8 if unit[2] == "bits" else 1)
