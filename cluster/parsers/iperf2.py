"""iperf 2: text and `-y C`.

GBytes are 2**30 bytes and Gbits 1e9 bits. A client's figure is what it handed over, a server's what
it took; where the log does not say who wrote it, the metric is plain `rate`.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from cluster.model import Definition
from cluster.parsers import GIB, KIB, MIB, Parser, Sheet, count, number

if TYPE_CHECKING:
    from cluster.foreign import Parsed
    from cluster.model import Scalar

BITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
BYTES = {"": 1.0, "K": KIB, "M": MIB, "G": GIB, "T": 2.0**40}
START = 0.05  # seconds: a report that begins before is of the whole test
SLACK = 0.02  # by which the bits of a line of CSV may differ from its bytes over its seconds
FIELDS = (9, 14)  # of a line of CSV: TCP, UDP

_iperf = partial(
    Definition,
    benchmark="iperf2",
    unit="B/s",
    better="higher",
    clock="iperf's own, on the host that wrote the log",
    synchronisation="the client begins when the server listens",
    warm_up="none",
    aggregation="all ranks",
    flow="one way",
    medium="TCP",
)
SENT = _iperf(
    metric="sent",
    what="bytes that a client's kernel took, all streams together, over the test; in bit/s",
)
RECEIVED = _iperf(
    metric="received",
    what="bytes that a server took, all streams together, over the test; printed in bit/s",
)
RATE = _iperf(
    metric="rate",
    what="bytes over the test, all streams together, on a side that the log does not name",
)
LOST = _iperf(
    metric="lost",
    unit="%",
    better="lower",
    what="UDP datagrams that did not arrive, in percent of those sent",
    flow="",
    medium="",
)
JITTER = _iperf(
    metric="jitter",
    unit="s",
    better="lower",
    what="jitter of UDP datagrams; printed in ms",
    flow="",
    medium="",
)

_LINE = re.compile(
    r"\s*\[\s*(\*?\d+|SUM)(?:-\d+)?\]\s+([\d.]+)\s*-\s*([\d.]+)\s+sec\s+"
    r"([\d.]+)\s+([KMGT]?)Bytes\s+([\d.]+)\s+([KMGT]?)(bits|Bytes)/sec(.*)"
)
_UDP = re.compile(r"\s+([\d.]+) ms\s+(\d+)/\s*(\d+) \(")
_CLIENT = re.compile(r"\s*Client connecting to (\S+),? (TCP|UDP) port")
_SERVER = re.compile(r"\s*Server listening on (TCP|UDP) port (\d+)")
_CONNECTED = re.compile(r"\s*\[\s*(\*?\d+)(?:-\d+)?\] local \S+ port (\d+) connected with")
_ERROR = re.compile(
    r".*\b((?:connect|write|read|bind|listen|recv)\d? failed\b.*|tcp connect failed.*"
    r"|did not receive ack of last datagram.*|unable to connect.*)",
    re.IGNORECASE,
)
_KNOWN = re.compile(
    r"\s*(?:-{10,}\s*$|\[ *ID\] Interval|TCP window size|UDP buffer size|"
    r"Sending \d+ byte datagrams|Receiving \d+ byte|Write buffer size|Read buffer size|Binding to|"
    r"TCP congestion|\[ *\d+\] Sent )"
)
_CSV = re.compile(r"\s*\d{14}(?:\.\d+)?,[^,]*,\d*,[^,]*,\d*,-?\d+,[\d.]+-[\d.]+,\d+,\d+(?:,|\s*$)")


class Iperf2(Parser):
    """iperf 2: rates in bits per second; its GBytes are 2**30 bytes."""

    marks: ClassVar[tuple[str, ...]] = (
        "bits/sec",
        "Bytes/sec",
        "Client connecting",
        "Server listening on ",
        ",0.0",
    )
    definitions: ClassVar[tuple[Definition, ...]] = (SENT, RECEIVED, RATE, LOST, JITTER)

    def __init__(self) -> None:
        """Begin outside any test."""
        self._tests: list[_Test] = []
        self._owners: dict[str, _Test] = {}  # of the streams of a test both ways (-d)
        self._port = ""  # that the last server listens on

    def take(self, line: str, number: int) -> bool:
        """Read a line of text or CSV."""
        client, server = _CLIENT.match(line), _SERVER.match(line)
        if client or server:
            protocol = client[2] if client else server[1] if server else ""
            self._tests.append(_Test(number, "client" if client else "server", protocol))
            self._port = server[2] if server else self._port
            self._owners.clear()
            return True
        connected = _CONNECTED.match(line)
        if connected and len(self._tests) > 1 and not self._tests[-2].is_begun:
            self._owners[connected[1]] = self._dual(connected[2])
            return self._owners[connected[1]].other(line)
        match = _LINE.match(line)
        if match and not match[9].rstrip().endswith(("sender", "receiver")):
            return (self._owners.get(match[1]) or self._open(number)).row(match)
        if _CSV.match(line):
            return self._open(number).csv(line.strip().split(","))
        return bool(self._tests) and self._tests[-1].other(line)

    def _dual(self, port: str) -> _Test:
        """Find the side that a stream is of: a server's has its port here."""
        role = "server" if port == self._port else "client"
        mine = [test for test in self._tests[-2:] if test.role == role]
        return mine[0] if mine else self._tests[-1]

    def _open(self, number: int) -> _Test:
        if not self._tests:
            self._tests.append(_Test(number, "", ""))
        return self._tests[-1]

    def results(self) -> tuple[Parsed, ...]:
        """Give a result per client or server."""
        return tuple(test.parsed() for test in self._tests)


class _Test:
    """What one client or server reported: by stream, the report that covers most."""

    def __init__(self, first: int, role: str, protocol: str) -> None:
        self.role = role
        self._sheet = Sheet("iperf2", first, f"iperf {role}".strip())
        self._protocol = protocol
        self._totals: dict[str, tuple[float, float]] = {}  # seconds and bytes per second
        self._streams: dict[str, None] = {}
        self._last = 0.0  # second that a report reaches
        self._csv: dict[str, tuple[float, float]] = {}  # of a log that never names a sum

    @property
    def is_begun(self) -> bool:
        """Whether it has any report, or a stream."""
        return bool(self._streams or self._csv)

    def other(self, line: str) -> bool:
        error, connected = _ERROR.match(line), _CONNECTED.match(line)
        if error:
            self._sheet.fail(error[1].strip())
        elif connected:
            self._streams[connected[1]] = None
        return bool(error or connected or _KNOWN.match(line))

    def row(self, match: re.Match[str]) -> bool:
        begin, end, amount = (number(match[at]) for at in (2, 3, 6))
        if begin is None or end is None or amount is None or end <= begin:
            return False
        scale = BITS[match[7]] / 8 if match[8] == "bits" else BYTES[match[7]]
        self._add(match[1], begin, end, amount * scale)
        udp = _UDP.match(match[9])
        if udp and begin < START:
            self._sheet.add(JITTER, float(udp[1]) / 1e3)
            self._sheet.add(LOST, 100 * int(udp[2]) / max(1, int(udp[3])))
        return True

    def csv(self, fields: list[str]) -> bool:
        """Read a line of CSV; its last number must agree with the others."""
        begin, end = (number(part) for part in fields[6].split("-"))
        size, bits = count(fields[7]), count(fields[8])
        if len(fields) not in FIELDS or begin is None or end is None or end <= begin:
            return False
        if size is None or bits is None or abs(size * 8 / (end - begin) - bits) > SLACK * bits + 1:
            return False
        stream = "sum" if fields[5] == "-1" else fields[5]
        if begin <= START:  # the others are of intervals, which the line of the whole test covers
            self._csv[stream] = (end, bits / 8)
        return True

    def _add(self, stream: str, begin: float, end: float, rate: float) -> None:
        if stream != "SUM":
            self._streams[stream] = None
        self._last = max(self._last, end)
        if begin <= START and end >= self._totals.get(stream, (0.0, 0.0))[0]:
            self._totals[stream] = (end, rate)

    def parsed(self) -> Parsed:
        sheet, streams = self._sheet, len(self._streams)
        params: dict[str, Scalar] = {"streams": max(1, streams)}
        if self._protocol:
            params["protocol"] = self._protocol
        total = self._totals.get("SUM" if streams > 1 else next(iter(self._totals), ""))
        for stream, (_, rate) in self._csv.items():
            sheet.add(RATE, rate, {"stream": stream})
        if total is not None and total[0] < self._last:  # of its first interval
            total = None
        if total is not None:
            sheet.add(self._definition(), total[1], params)
        elif self._csv:
            sheet.note("who wrote it, client or server, is not said")
        elif self.role == "server" and not streams:
            sheet.note("nobody connected to this server")
        else:
            sheet.fail(
                "there is no report of the whole test: it was stopped, or the log is cut off"
            )
        return sheet.parsed()

    def _definition(self) -> Definition:
        return {"client": SENT, "server": RECEIVED}.get(self.role, RATE)
