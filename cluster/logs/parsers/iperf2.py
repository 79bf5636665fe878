"""iperf 2: text and `-y C`.

GBytes are 2**30 bytes and Gbits 1e9 bits. A client's figure counts what it sent, a server's what it
received; if the log does not say which side wrote it, the metric is `rate`. If the report of the
whole test is missing, there are the rates of its intervals.
"""

from __future__ import annotations

import re

from cluster.core.model.logs import Parsed
from cluster.core.model.results.measurements import Definition
from cluster.core.model.value import Scalar
from cluster.logs import tcp
from cluster.logs.parsers import Parser, ResultBuilder, count, define, number

SENT, RECEIVED, RATE, INTERVAL, LOST, JITTER = DEFINITIONS = define(
    "iperf2",
    """
    sent (B/s, one way, TCP): bytes that the sender's kernel took, all streams together, over the
        test; in bit/s
    received (B/s, one way, TCP): bytes that the receiver took, all streams together, over the test;
        printed in bit/s
    rate (B/s, one way, TCP): bytes over the test, all streams together, on a side that the log does
        not name
    interval (B/s, one way, TCP): bytes of each interval, all streams together, over its seconds, on
        the side that wrote the log
    lost (%, lower): UDP datagrams that did not arrive, in percent of those sent
    jitter (s): jitter of UDP datagrams; printed in ms
    """,
    clock="iperf's own, on the host that wrote the log",
    synchronisation="the client begins when the server listens",
    warm_up="none",
    aggregation="all ranks",
)


_FIGURE = r"(\d{1,20}+(?:\.\d{0,20}+)?)"
_LINE = re.compile(
    r"\s*\[\s*(\*?\d+|SUM)(?:-(\d+))?\]\s+"
    rf"{_FIGURE}\s*-\s*{_FIGURE}[ \t]sec\s+"  # iperf3 has two spaces before it
    rf"{_FIGURE}\s+([KMGT]?)Bytes\s+{_FIGURE}\s+([KMGT]?)(bits|Bytes)/sec(.*)"
)
_CLIENT = re.compile(r"\s*Client connecting to (\S+),? (TCP|UDP) port")
_SERVER = re.compile(r"\s*Server listening on (TCP|UDP) port (\d+)")
_CONNECTED = re.compile(
    r"\s*\[\s*(\*?\d+)(?:-\d+)?\] local \S+ port (\d+) connected with .*?port \d+( \(reverse\))?"
)
_CSV = re.compile(
    r"\s*\d{14}(?:\.\d+)?,[^,]*,\d*,[^,]*,\d*,\*?-?\d+,[\d.]+-[\d.]+,\d+,\d+(?:,|\s*$)"
)

OPEN = 2  # tests that may still get lines: a host's server and client


class Iperf2(Parser):
    """iperf 2: rates in bits per second; its GBytes are 2**30 bytes."""

    marks = (
        *("bits/sec", "Bytes/sec", "Client connecting", "Server listening on ", ",0.0", ",5001,"),
    )
    definitions = DEFINITIONS

    def __init__(self) -> None:
        self._results: list[Parsed] = []  # of the tests before these
        self._tests: list[Iperf2Test] = []
        self._owners: dict[str, Iperf2Test] = {}  # of streams
        self._port = ""  # that the last server listens on

    def take(self, line: str, lineno: int) -> bool:
        if "/sec" in line and (row := _LINE.match(line)):
            return not row[10].rstrip().endswith(("sender", "receiver")) and self._row(row, lineno)
        if "onnect" in line or "listening" in line:
            return self._begin(line, lineno) or self._other(line)
        if "," in line and _CSV.match(line):
            return self._open(lineno).csv(line.strip().split(","))
        return self._other(line)

    def _begin(self, line: str, lineno: int) -> bool:
        client, server, connection = (p.match(line) for p in (_CLIENT, _SERVER, _CONNECTED))
        if client:
            test = self._head(lineno, "client", client[2])
            self._tests[-1].stay(line)
            return test
        if server:
            self._port = server[2]
            return self._head(lineno, "server", server[1])
        return connection is not None and self._connect(connection, lineno)

    def _other(self, line: str) -> bool:
        return bool(self._tests) and self._tests[-1].other(line)

    def _head(self, lineno: int, role: str, protocol: str) -> bool:
        """Begin a test; streams may have connected before its role is printed."""
        newest = self._tests[-1] if self._tests else None
        if role == "client" and self._is_dual and not self._tests[-1].has_rows:
            return True  # a server of -d starts a client for each of its streams
        if newest is None or newest.is_headed or newest.has_rows:
            if newest is None or newest.has_rows:
                self._owners.clear()
            newest = self._new(lineno)
        newest.role, newest.protocol, newest.is_headed = role, protocol, True
        return True

    def _connect(self, match: re.Match[str], lineno: int) -> bool:
        """Read that a stream connected; after the figures of a test, it belongs to the next one."""
        test = self._open(lineno)
        if self._is_dual:  # the side that a stream belongs to: a server's has its port here
            test = self._tests[-2 if match[2] == self._port else -1]
        if test.has_rows:
            test = self._new(lineno, test)
        self._owners[match[1]] = test
        test.stay(match.string)
        test.connect(match[1], is_reverse=match[3] is not None and not self._is_dual)
        return True

    def _row(self, match: re.Match[str], lineno: int) -> bool:
        """Read a figure; a second one for the whole test belongs to another test."""
        name, flow = match[1], StreamReport.parse(match)
        if flow is None:
            return False
        test = self._owners.get(name) or self._owners.get(name.lstrip("*")) or self._open(lineno)
        if test.has_ended(name, flow):
            test = self._new(lineno, test)
        for owner in self._tests[-2:] if name == tcp.SUM and self._is_dual else (test,):
            owner.row(name, flow, match)
        return True

    @property
    def _is_dual(self) -> bool:
        """Whether the last two tests are the two sides of one host (-d, -r)."""
        roles = [test.role for test in self._tests[-2:]]
        return roles == ["server", "client"] and self._tests[-1].is_beside

    def _new(self, lineno: int, template: Iperf2Test | None = None) -> Iperf2Test:
        newest = self._tests[-1] if self._tests else None
        # A server that only printed that it listens is the other side of this client.
        is_server_side = newest is not None and newest.role == "server"
        self._tests.append(Iperf2Test(lineno, is_beside=template is None and is_server_side))
        while len(self._tests) > OPEN and self._tests[0] not in self._owners.values():
            self._results.append(self._tests.pop(0).result())
        if template is not None:
            self._tests[-1].role, self._tests[-1].protocol = template.role, template.protocol
        return self._tests[-1]

    def _open(self, lineno: int) -> Iperf2Test:
        return self._tests[-1] if self._tests else self._new(lineno)

    def results(self) -> tuple[Parsed, ...]:
        return (*self._results, *(test.result() for test in self._tests))


START = 0.05  # seconds: a report that begins before this covers the whole test
WHOLE = 0.95  # of the end of the last report: a sum may end before its streams
SLACK = 0.02  # by which the bits of a line of CSV may differ from its bytes over its seconds
ROUNDING = 0.05  # seconds, by which each end of its interval may be off
SAME = 0.05  # by which a sum may differ from the added rates of its streams
FIRST = 1.0  # seconds: a line alone of this time is probably the first interval of a longer test
FIELDS = (9, 14)  # of a line of CSV: TCP, UDP

_UDP = re.compile(r"\s+([\d.]+) ms\s+(\d+)/\s*(\d+) \(")
_REMOTE = re.compile(r"\s*\[\s*(\d+)\] Server Report:")
_ERROR = re.compile(
    r".*\b((?:connect|write|read|bind|listen|recv)\d? failed\b.*|tcp connect failed.*"
    r"|did not receive ack of last datagram.*|unable to connect.*)",
    re.IGNORECASE,
)
_KNOWN = re.compile(
    r"\s*(?:-{10,}\s*$|\[(?: *ID|SUM-cnt)\] Interval|TCP window size|UDP buffer size|"
    r"Sending \d+ byte datagrams|Receiving \d+ byte|Write buffer size|Read buffer size|Binding to|"
    r"TCP congestion|\[(?: *\d+|SUM(?:-\d+)?)\] Sent |TOS set to |\[ *CT\] |\[FD\d+\] |"
    r"\[(?: *\*?\d+|SUM)\] +[\d.]+ *-[\d. ]+sec +\d+ datagrams? received out-of-order|"
    r"Waiting for server threads)"
)


class StreamReport:
    """The report on a stream in one direction: of all its reports, that on the whole test.

    It has the seconds at which it begins and ends, bytes, and bytes per second.
    """

    def __init__(self, end: float, amount: float, rate: float, begin: float = 0.0) -> None:
        self.begin, self.end = begin, end
        self.amount, self.rate = amount, rate  # bytes, bytes per second
        self.last = end  # second that any of its reports reaches
        self.is_alone = True  # its only report
        self.udp: re.Match[str] | None = None

    @classmethod
    def parse(cls, match: re.Match[str]) -> StreamReport | None:
        """Read a line of `_LINE`; none if it ends before it begins."""
        _, _, begin, end, amount, of_amount, rate, of_rate, unit, rest = match.groups()
        rate = float(rate) * tcp.bytes_of(of_rate, unit)
        if end == begin and rate:  # the test was so short that both ends are rounded to one
            end = float(begin) + float(amount) * tcp.bytes_of(of_amount, "Bytes") / rate
        if float(end) <= float(begin):
            return None
        flow = cls(float(end), float(amount) * tcp.bytes_of(of_amount, "Bytes"), rate, float(begin))
        flow.udp = _UDP.match(rest) if "(" in rest else None
        flow.is_alone = begin != match[4]  # no interval is as short as that
        return flow

    @property
    def covers(self) -> bool:
        """Whether it covers the whole time of all reports, and not only an interval."""
        return self.begin <= START and self.end >= WHOLE * self.last

    @property
    def is_whole(self) -> bool:
        """Whether it is the report on the whole test, as far as the log shows."""
        return self.covers and not (self.is_alone and self.end <= FIRST)

    def merge(self, other: StreamReport) -> StreamReport:
        """Take a later report of the same stream."""
        last = max(self.last, other.last)
        longer = other if other.begin <= START and other.end >= self.end else self
        longer.last, longer.is_alone = last, False
        return longer


class Iperf2Test:
    """What one client or server reported."""

    def __init__(self, first: int, *, is_beside: bool) -> None:
        self.role = self.protocol = ""
        self.is_headed = self._is_connected = False
        self.is_beside = is_beside
        self._builder = ResultBuilder("iperf2", first)
        self._flows: dict[str, StreamReport] = {}  # of streams and of their sum
        self._remote: dict[str, StreamReport] = {}  # that a server reported to this client (UDP)
        self._server_stream = ""  # the stream whose next row is the server's report
        self._streams: dict[str, None] = {}
        self._reverse: set[str] = set()
        self._many = 0  # how many streams a sum counts
        self._csv: dict[str, StreamReport] = {}  # the flows of a log without a sum
        self._intervals = tcp.Intervals()
        self._datagrams_of: list[tuple[str, re.Match[str]]] = []  # of all reports of streams

    @property
    def has_rows(self) -> bool:
        return bool(self._flows or self._csv)

    def stay(self, line: str) -> None:
        if tcp.is_within_host(line):
            self._within()

    def _within(self) -> None:
        self._builder.hosts = 1
        self._builder.note("within_host")

    def connect(self, stream: str, *, is_reverse: bool) -> None:
        self._streams[stream.lstrip("*")] = None
        self._is_connected = True
        if is_reverse:
            self._reverse.add(stream.lstrip("*"))

    def has_ended(self, stream: str, row: StreamReport) -> bool:
        """Tell whether a row is of a later test, because this one already has its total."""
        earlier = self._flows.get(stream)
        if earlier is None or stream == self._server_stream or row.begin > START:
            return False
        if row.end < WHOLE * earlier.last:
            return True  # the first interval again
        return earlier.covers and row.end <= earlier.end and row.amount != earlier.amount

    def other(self, line: str) -> bool:
        """Read a line without figures; tell whether it is one of iperf."""
        if _KNOWN.match(line):
            return True
        error, remote = _ERROR.match(line), _REMOTE.match(line)
        if error:
            self._builder.fail(error[1].strip())
        elif remote:
            self._server_stream = remote[1]
        return bool(error or remote)

    def row(self, stream: str, flow: StreamReport, match: re.Match[str]) -> None:
        flows = self._remote if stream == self._server_stream else self._flows
        if stream == self._server_stream:
            flow.is_alone = False  # a server reports on the whole test
        else:
            if flow.udp is not None and stream != tcp.SUM:
                self.protocol = "UDP"
                self._datagrams_of.append((stream, flow.udp))
            side = self._way(stream) or self._definition(stream).metric
            self._intervals.add(stream, side, (flow.begin, flow.end), flow.rate)
        flows[stream] = flows[stream].merge(flow) if stream in flows else flow
        if stream == tcp.SUM:
            self._many = int(match[2] or 0)
        else:
            self._streams[stream.lstrip("*")] = None

    def csv(self, fields: list[str]) -> bool:
        """Read a line of CSV, whose last number must agree with the others."""
        begin, end = (number(part) for part in fields[6].split("-"))
        size, bits = count(fields[7]), count(fields[8])
        if len(fields) not in FIELDS or begin is None or end is None or end <= begin:
            return False
        slack = SLACK + 2 * ROUNDING / (end - begin)
        if size is None or bits is None or abs(size * 8 / (end - begin) - bits) > slack * bits + 1:
            return False
        if tcp.stays_within(fields[1], fields[3]):
            self._within()
        stream = "sum" if fields[5] == "-1" else fields[5]
        flow = StreamReport(end, size, bits / 8, begin)
        self._intervals.add(tcp.SUM if stream == "sum" else stream, "", (begin, end), flow.rate)
        self._csv[stream] = self._csv[stream].merge(flow) if stream in self._csv else flow
        return True

    def result(self) -> Parsed:
        builder = self._builder
        builder.title = f"iperf {self.role}".strip()
        for stream, flow in self._csv.items():
            if flow.is_whole:
                builder.add(RATE, flow.rate, {"stream": stream})
        sides: dict[tuple[Definition, str], dict[str, StreamReport]] = {}
        for stream, flow in self._flows.items():
            if stream != tcp.SUM:
                side = self._definition(stream), self._way(stream)
                sides.setdefault(side, {})[stream] = flow
        if not sides and tcp.SUM in self._flows:
            sides[self._definition(tcp.SUM), ""] = {}
        for (definition, way), flows in sides.items():
            self._add(definition, way, flows, is_both=len(sides) > 1)
        self._datagrams()
        if builder.empty:
            self._add_intervals(builder)
        self._remark()
        return builder.result()

    def _remark(self) -> None:
        if self._flows and not (self.is_headed or self._is_connected):
            self._builder.lack("no_head")
        if self._csv:
            self._builder.note("unknown_side")
        if self._builder.empty and self.role == "server" and not self._streams:
            self._builder.note("no_client")
        elif self._builder.empty:
            self._builder.lack_rows(
                "there is no report of the whole test: it was stopped, or the log is cut off",
                "[ ID] Interval Transfer Bandwidth",
            )

    def _way(self, stream: str) -> str:
        """Name the direction of a stream, if its definition does not."""
        return "" if self.role or not stream.startswith("*") else "back"

    def _add(
        self, definition: Definition, way: str, flows: dict[str, StreamReport], *, is_both: bool
    ) -> None:
        total = self._flows.get(tcp.SUM)
        last = max((flow.last for flow in flows.values()), default=0.0)
        if total is None and max(len(flows), len(self._streams)) == 1:
            total = next(iter(flows.values()))
        if total is None or not total.is_whole or total.end < WHOLE * last:
            return
        amount = sum(flow.amount for flow in flows.values())
        if is_both and amount and total.amount > (1 + SAME) * amount:
            amounts = {name: flow.amount for name, flow in self._flows.items()}
            if not tcp.adds_up(amounts) or not all(flow.is_whole for flow in flows.values()):
                return
            self._builder.note("sum_of_both_ways")
            rate = sum(flow.rate for flow in flows.values())
        else:
            rate = total.rate
        params = self._params(self._count(flows, is_both=is_both))
        self._builder.add(definition, rate, {**params, **({"way": way} if way else {})})

    def _params(self, streams: int | str) -> dict[str, Scalar]:
        params: dict[str, Scalar] = {"streams": streams}
        return params | ({"protocol": self.protocol} if self.protocol else {})

    def _count(self, flows: dict[str, StreamReport], *, is_both: bool) -> int | str:
        """Count the streams, unless the sum shows that lines of some are missing."""
        streams = max(1, self._many, len(self._streams))
        amounts = {name: flow.amount for name, flow in flows.items()}
        total = self._flows.get(tcp.SUM)
        if total is None or is_both or self._many or self.is_headed:
            return streams
        if tcp.adds_up({**amounts, tcp.SUM: total.amount}):
            return streams
        self._builder.lack("no_streams_both_ways")
        return tcp.SEVERAL

    def _add_intervals(self, builder: ResultBuilder) -> None:
        """Use the rates of intervals, as there is no report of the whole test."""
        ways = self._intervals.together()
        streams_named = sum(streams for _, streams, _ in ways if isinstance(streams, int))
        if streams_named < len(self._streams) and tcp.SUM not in self._flows:
            return  # lines of some streams that connected are missing
        for way, streams, values in ways:
            params = self._params(self._many or streams)
            if len(ways) > 1:
                params["way"] = way
            for value in values:
                builder.add(INTERVAL, value, params)
        for stream, udp in self._datagrams_of if ways else ():
            self._add_loss(stream, udp)
        if not builder.empty:
            builder.lack("only_intervals")

    def _datagrams(self) -> None:
        """Add what a server reported about datagrams, in this log or to this client."""
        for flows in (self._flows, self._remote):
            for stream, flow in flows.items():
                if flow.udp is not None and flow.is_whole and stream != tcp.SUM:
                    self._add_loss(stream, flow.udp)
        for stream, flow in self._remote.items():
            point = {"protocol": self.protocol or "UDP", **self._stream(stream)}
            self._builder.add(RECEIVED, flow.rate, point)

    def _add_loss(self, stream: str, udp: re.Match[str]) -> None:
        params = self._stream(stream)
        self._builder.add(JITTER, float(udp[1]) / 1e3, params)
        self._builder.add(LOST, 100 * int(udp[2]) / max(1, int(udp[3])), params)

    def _stream(self, stream: str) -> dict[str, Scalar]:
        return {"stream": stream} if len(self._streams) > 1 else {}

    def _definition(self, stream: str) -> Definition:
        """Tell what the figure of a stream counts: with -R and --full-duplex, a client receives."""
        name = stream.lstrip("*")
        is_reverse = name in self._reverse or (stream == tcp.SUM and bool(self._reverse))
        # The client that a server starts beside itself (-d, -r) sends, though it has a star.
        is_reverse |= name != stream and not self.is_beside
        client, server = (RECEIVED, SENT) if is_reverse else (SENT, RECEIVED)
        return {"client": client, "server": server}.get(self.role, RATE)
