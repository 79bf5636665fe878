"""iperf3: JSON (`-J`), also several documents in one file, and text.

GBytes are 2**30 bytes and Gbits 1e9 bits. The result is the receiver's rate of all streams
together; the sender's rate counts what its kernel accepted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from cluster.core import decoders
from cluster.core.model.logs import Parsed
from cluster.core.model.results.measurements import Definition
from cluster.core.model.value import Scalar
from cluster.logs.parsers import Parser, ResultBuilder, define
from cluster.logs.tcp import (
    SEVERAL,
    SUM,
    Intervals,
    adds_up,
    bytes_of,
    is_within_host,
    stays_within,
)

RECEIVED, SENT, INTERVAL, LOST, RETRANSMITS, JITTER = DEFINITIONS = define(
    "iperf3",
    """
    received (B/s, one way, TCP): bytes that the receiver took, all streams together, over its
        seconds; printed in bit/s
    sent (B/s, one way, TCP): bytes that the sender's kernel took, all streams together, over its
        seconds; in bit/s
    interval (B/s, one way, TCP): bytes of each interval, all streams together, over its seconds, on
        the side that wrote the log; omitted intervals are left out
    lost (%, lower): UDP datagrams that did not arrive, in percent of those sent
    retransmits (segments, lower): segments of TCP that the sender sent again, all streams together
    jitter (s): jitter of UDP datagrams (RFC 1889); printed in ms
    """,
    clock="iperf3's own, on the host that counted",
    synchronisation="the sender begins when the receiver listens",
    warm_up="the seconds of --omit are not counted; none unless said otherwise",
    aggregation="all ranks",
)
STOPPED = "interrupt - the server has terminated"  # as every server is in the end

EVENT = 64  # characters at the beginning of a line of `--json-stream` that name its event
# Lines that iperf 2 never prints: they identify a log that was pasted without its head.
_OURS = re.compile(
    r"\s*\[ *(?:SUM|\d+)\]"
    r"(?:\[[TR]X-[CS]\]|\s+\d+\.\d\d-\d+\.\d\d\s{2,}sec | +local .* connected to )"
    r"|\s*\[ *ID\](?:\[Role\])? Interval .*\b(?:Bitrate|Retr)\b"
)
_HEAD = re.compile(r"\s*(?:Connecting to host|Accepted connection from|Reverse mode,|iperf 3\.)")
_KNOWN = re.compile(
    r"\s*(?:- -|Server output:|\[SUM\] .*datagrams received out-of-order|"
    r"\[ *\d+\] Sent \d+ datagrams|-{10,}|\[ *ID\]|"
    r"\[ *\d+\](?:\[[TR]X-[CS]\])? +local .* connected to |"
    r"Server listening on \d|iperf Done|Test Complete|"
    r"CPU Utilization|Control connection MSS|Time:|Cookie:|TCP MSS|Starting Test|snd_tcp|rcv_tcp|"
    r"Linux \S+ \d|Cookie)"
)
_ERROR = re.compile(
    r"\s*(?:iperf3: )?"
    r"((?:error - |interrupt - ).*|unable to .*|the (?:client|server) has terminated)"
)


class Iperf3(Parser):
    """iperf3: the receiver's figure, in bits per second; its GBytes are 2**30 bytes."""

    marks = (
        *("iperf3", "iperf 3.", "Connecting to host", "Accepted connection from", "sum_received"),
        *("bits/sec", "test_start", '"intervals"', '"event"', "receiver", "connected to"),
        "Bitrate",
    )
    definitions = DEFINITIONS

    def __init__(self) -> None:
        self._results: list[Parsed] = []
        self._text: TextReport | None = None
        # of `--json-stream`, as far as it is there
        self._stream: Iperf3JsonReport | None = None
        self._stream_at = 0

    def take(self, line: str, lineno: int) -> bool:
        row = _LINE.match(line)
        if row is not None and self._text is not None:
            if self._text.ends_before(row):
                self._close()
            return self._open(lineno).row(row)
        if _HEAD.match(line):
            if self._text is None or self._text.is_begun:
                self._close()
                self._text = TextReport(lineno)
            self._text.say(line)
            return True
        if error := _ERROR.match(line):
            self._open(lineno).fail(error[1])
            return True
        if _OURS.match(line) or (row is not None and _ROLE.search(line)):  # iperf2 has no role
            self._open(lineno)
        if self._text is None:
            return False
        return self._read_note(self._text, line) if row is None else self._text.row(row)

    def _read_note(self, text: TextReport, line: str) -> bool:
        is_chatter = _KNOWN.match(line) is not None
        if is_chatter:
            text.say(line)
        return is_chatter

    def take_document(self, text: str, lineno: int) -> bool:
        try:
            if '"event"' in text[:EVENT]:
                return self._event(decoders.decode(text, JsonEvent), lineno)
            document = decode_report(text)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return self._fragment(text, lineno)
        if document.is_any:
            return self._document(document, lineno)
        return document.title.startswith("iperf ") and self._fragment(text, lineno)

    def _event(self, event: JsonEvent, lineno: int) -> bool:
        """Read a line of `--json-stream`, which contains one part of the report as a document."""
        data = event.data
        if event.event == "start":
            start = decoders.decode(data, Start)
            if not start.version.startswith("iperf"):
                return False  # of another program
            self._end_stream()
            self._stream = Iperf3JsonReport(start=start, intervals=[])
            self._stream_at = lineno
        elif self._stream is None:
            return False
        elif event.event == "interval" and self._stream.intervals is not None:
            self._stream.intervals.append(decoders.decode(data, Interval))
        elif event.event == "end":
            self._stream.end = decoders.decode(data, End)
        elif event.event == "error":
            self._stream.error = decoders.decode(data, str)
        return True

    def _end_stream(self) -> None:
        document, self._stream = self._stream, None
        if document is None:
            return
        if not document.is_any:
            document.error = "its end is missing: it was stopped, or the log is cut off"
        self._document(document, self._stream_at)

    def _document(self, document: Iperf3JsonReport, lineno: int) -> bool:
        builder = ResultBuilder("iperf3", lineno, document.title)
        document.fill(builder)
        self._results.append(builder.result())
        return True

    def results(self) -> tuple[Parsed, ...]:
        self._close()
        self._end_stream()
        return tuple(self._results)

    def _fragment(self, text: str, lineno: int) -> bool:
        """Record that a document has no end, so that its totals are lost."""
        if '"test_start"' not in text and '"intervals"' not in text:
            return False
        builder = ResultBuilder("iperf3", lineno, "iperf3")
        builder.fail("the JSON document is broken or cut off: there are no totals")
        self._results.append(builder.result())
        return True

    def _open(self, lineno: int) -> TextReport:
        if self._text is None:
            self._text = TextReport(lineno)
        return self._text

    def _close(self) -> None:
        if self._text is not None:
            self._results.append(self._text.result())
            self._text = None


STALLED = "stalled"  # the setting of a result of which nothing arrived
START = 0.05  # seconds: a line that begins before this is of a test's beginning, or its whole
_PREFIX = r"([KMGT]?)"
_FIGURE = r"\d{1,20}+(?:\.\d{0,20}+)?"
_LINE = re.compile(  # seconds have two decimals, where iperf 2 has one or four
    r"\s*\[\s*(SUM|\d+)\](?:\[(TX|RX)-[CS]\])?\s+(\d{1,12}\.\d\d)\s*-\s*(\d{1,12}\.\d\d)"
    rf"\s+sec\s+{_FIGURE}\s+[KMGT]?Bytes\s+({_FIGURE})\s+{_PREFIX}(bits|Bytes)/sec(.*)"
)
_UDP = re.compile(r"\s+([\d.]+) ms\s+(\d+)/(\d+) \(([\d.e+-]+)%\)")
# Only a number of datagrams, where a stream of TCP has segments sent again and a window.
_SENT_UDP = re.compile(r"\s+\d+\s*(?:\(omitted\)\s*)?$")
_RETRANSMITS = re.compile(r"\s+(\d{1,15})\s+sender\s*$")
OMITTED = "(omitted)"
_ROLE = re.compile(r"\b(sender|receiver)\s*$")
# Above the totals of UDP in versions before 3.2, and above each interval.
_OLD_UDP = re.compile(r"\s*\[ *ID\] Interval .*\bBandwidth\b.*\bJitter\b")
_CONNECTED = re.compile(r"\s*\[ *(\d+)\](?:\[[TR]X-[CS]\])? +local \S+ port (\d+) connected to ")
_SERVER = re.compile(r"\s*Server output:")
_SUMMARY = re.compile(r"\s*- - ")  # the line before the totals
_SAID = (
    ("version", re.compile(r"iperf (3\.[\w.+-]+)")),
    ("mss", re.compile(r"(?:Control connection |TCP )MSS:? (\d+)")),
    ("congestion", re.compile(r"snd_tcp_congestion (\w+)")),
)


class TextReport:
    def __init__(self, first: int) -> None:
        self._builder = ResultBuilder("iperf3", first, "iperf3")
        # (role, way) -> the totals of streams, and of [SUM]
        self._totals: dict[tuple[str, str], dict[str, float]] = {}
        self._streams: dict[str, None] = {}
        self._ports: dict[str, str] = {}  # of streams, here
        self._again: dict[str, int] = {}  # segments that were sent again
        self._udp: dict[str, dict[str, tuple[float, float]]] = {}  # way -> jitter and % lost
        self._params: dict[str, Scalar] = {}
        self._intervals = Intervals()
        self._datagrams: list[tuple[str, re.Match[str]]] = []  # of the intervals of streams
        self._last = 0.0  # second that any interval reaches
        self._is_summary = self._is_old_udp = self._is_servers = False
        self.is_begun = False
        self._is_stalled = False  # nothing was sent in the last interval

    def fail(self, text: str) -> None:
        """Record a failure; a server that was stopped after the test did not fail."""
        if text.startswith(STOPPED) and (self._totals or not self.is_begun):
            self._builder.note("server_stopped_after")
            return
        self.is_begun = True
        self._builder.fail(text)

    def ends_before(self, match: re.Match[str]) -> bool:
        """Tell whether a line of `_LINE` begins another test, whose head is missing."""
        if self._is_servers or float(match[3]) > START:
            return False
        side, way = self._side(match[8]), match[2] or ""
        if not side:
            is_early = bool(self._totals) or float(match[4]) < self._last
            return OMITTED not in match[8] and is_early
        rate = _rate(match)
        return self._totals.get((side, way), {}).get(match[1], rate) != rate

    def say(self, line: str) -> None:
        if line.lstrip().startswith("Reverse mode"):
            self._params["reverse"] = 1
        self._is_servers |= _SERVER.match(line) is not None
        self._is_summary |= _SUMMARY.match(line) is not None
        self._is_old_udp |= self._is_summary and _OLD_UDP.match(line) is not None
        if (connection := _CONNECTED.match(line)) and not self.is_begun:
            port = self._ports.setdefault(connection[1], connection[2])
            if port != connection[2]:
                self._builder.doubt()  # two tests have a stream of this number
        if is_within_host(line):
            self._builder.hosts = 1
            self._builder.note("within_host")
        for name, pattern in _SAID:
            match = pattern.search(line)
            self._builder.set(name, match[1] if match else "")

    def row(self, match: re.Match[str]) -> bool:
        stream, label, begin, end, _, _, _, rest = match.groups()
        way, rate = label or "", _rate(match)
        self.is_begun = True
        if stream != SUM:
            self._streams[stream] = None
        side, udp = self._side(rest), _UDP.match(rest) if "%" in rest else None
        if udp is not None or (stream != SUM and _SENT_UDP.match(rest)):
            self._params["protocol"] = "UDP"
        self._watch(side, rate)
        if side and rate:  # without bytes, this side does not know the count of the other one
            self._totals.setdefault((side, way), {})[stream] = rate
        elif not side and OMITTED not in rest:
            self._last = max(self._last, float(end))
            self._intervals.add(stream, way, (float(begin), float(end)), rate)
            self._datagrams += [(stream, udp)] if udp is not None and stream != SUM else []
        if not side:
            return True
        if again := _RETRANSMITS.match(rest):
            self._again[way + stream] = int(again[1])
        if udp and (side == "receiver" or not _ROLE.search(rest)):
            self._udp.setdefault(way, {})[stream] = _jitter_and_loss(udp)
        return True

    def _watch(self, side: str, rate: float) -> None:
        """Notice that the receiver has nothing at the end, though bytes were sent."""
        if not side:
            self._is_stalled = not rate
        elif side == "receiver" and not rate and self._is_stalled and self._totals:
            self._builder.set(STALLED, "yes")

    def _side(self, rest: str) -> str:
        """Tell whose total it is, from the end of the line; empty for an interval."""
        if "er" in rest and (role := _ROLE.search(rest)):
            return role[1]
        # The totals of UDP have no role before 3.2; they are the sender's.
        return "sender" if self._is_old_udp and _UDP.match(rest) else ""

    def result(self) -> Parsed:
        builder = self._builder
        by_role = sorted(self._totals.items(), key=lambda item: item[0][0] != "receiver")
        for (role, way), totals in by_role:
            name, params = self._total(way, totals)
            if role == "sender" and way + name in self._again:
                builder.add(RETRANSMITS, self._again[way + name], params)
            if name in totals:
                metric = RECEIVED if role == "receiver" else SENT
                builder.add(metric, totals[name], params)
        for way, datagrams in self._udp.items():
            name, params = self._total(way, dict.fromkeys(datagrams, 0.0))
            if name in datagrams:
                builder.add(JITTER, datagrams[name][0], params)
                builder.add(LOST, datagrams[name][1], params)
        if builder.empty and self.is_begun:
            self._without_totals(builder)
        if self._totals and "receiver" not in {role for role, _ in self._totals}:
            builder.note("only_sent")
        return builder.result()

    def _without_totals(self, builder: ResultBuilder) -> None:
        """Use the rates of the intervals, if the log contains nothing else."""
        for way, streams, values in self._intervals.together():
            for value in values:
                builder.add(INTERVAL, value, self._point(way, streams))
        if builder.empty:
            text = "there are no totals: it was stopped, or the log is cut off"
            builder.lack_rows(text, "[ID] 0.00-10.00 sec FIGURE MBytes FIGURE Mbits/sec receiver")
            return
        builder.lack("only_intervals")
        for stream, udp in self._datagrams:
            params: dict[str, Scalar] = {"stream": stream} if len(self._streams) > 1 else {}
            jitter, loss = _jitter_and_loss(udp)
            builder.add(JITTER, jitter, params)
            builder.add(LOST, loss, params)

    def _total(self, way: str, rates: Mapping[str, float]) -> tuple[str, dict[str, Scalar]]:
        """Choose the total of all streams, their sum or the only stream, and count them."""
        streams = len([name for name in self._streams if not way or name in rates])
        if SUM in rates:
            if not adds_up(rates):
                self._builder.lack("no_streams")
            return SUM, self._point(way, max(1, streams) if adds_up(rates) else SEVERAL)
        return SUM if streams > 1 else next(iter(rates)), self._point(way, streams)

    def _point(self, way: str, streams: int | str) -> dict[str, Scalar]:
        return self._params | {"streams": streams} | ({"way": way} if way else {})


def _rate(match: re.Match[str]) -> float:
    """Return the bytes per second of a line of `_LINE`."""
    return float(match[5]) * bytes_of(match[6], match[7])


def _jitter_and_loss(udp: re.Match[str]) -> tuple[float, float]:
    """Return jitter in seconds, and lost datagrams in percent."""
    return float(udp[1]) / 1e3, 100 * int(udp[2]) / max(1, int(udp[3]))


_NAN = re.compile(r"(?<=[:\s])-?(?:nan|inf)\b", re.IGNORECASE)  # how cJSON writes 0/0


class _Sum(msgspec.Struct):
    seconds: float | None = 0.0
    bytes: float | None = 0.0
    bits_per_second: float | None = 0.0
    omitted: bool = False
    jitter_ms: float | None = None
    lost_percent: float | None = None
    retransmits: int | None = None

    @property
    def rate(self) -> float:
        """Bytes per second."""
        if self.bytes is not None and self.seconds:
            return self.bytes / self.seconds
        return (self.bits_per_second or 0.0) / 8


class Interval(msgspec.Struct):
    sum: _Sum | None = None


class _Udp(msgspec.Struct):
    udp: _Sum | None = None


class _Cpu(msgspec.Struct):
    host_total: float = 0.0
    remote_total: float = 0.0


class End(msgspec.Struct):
    streams: list[_Udp] = []
    sum: _Sum | None = None
    sum_sent: _Sum | None = None
    sum_received: _Sum | None = None
    sum_sent_bidir_reverse: _Sum | None = None
    sum_received_bidir_reverse: _Sum | None = None
    sender_tcp_congestion: str = ""
    cpu_utilization_percent: _Cpu | None = None


class TestStart(msgspec.Struct):
    protocol: str = "TCP"
    num_streams: int = 1
    omit: float = 0
    reverse: int = 0


class _Ends(msgspec.Struct):
    local_host: str = ""
    remote_host: str = ""


class Start(msgspec.Struct):
    connected: list[_Ends] = []
    version: str = ""
    connecting_to: dict[str, Any] | None = None
    tcp_mss: int = 0
    tcp_mss_default: int = 0
    test_start: TestStart | None = None


class JsonEvent(msgspec.Struct):
    """A line of `--json-stream`."""

    event: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")


class Iperf3JsonReport(msgspec.Struct):
    start: Start | None = None
    intervals: list[Interval] | None = None
    end: End | None = None
    error: str = ""
    title_: str | None = msgspec.field(default=None, name="title")

    @property
    def is_any(self) -> bool:
        return self.start is not None and (self.end is not None or bool(self.error))

    @property
    def title(self) -> str:
        return (self.start.version if self.start else "") or "iperf3"

    @property
    def _test(self) -> TestStart:
        return (self.start and self.start.test_start) or TestStart()

    @property
    def _sends(self) -> bool:
        """Whether the side that wrote it was the sender."""
        is_client = self.start is not None and self.start.connecting_to is not None
        return is_client != bool(self._test.reverse)

    def fill(self, builder: ResultBuilder) -> None:
        if self.error.startswith(STOPPED) and not (self.start and self.start.test_start):
            builder.note("server_stopped")
        elif self.error:
            builder.fail(self.error)
        self._say(builder)
        test = self._test
        params: dict[str, Scalar] = {"protocol": test.protocol, "streams": test.num_streams}
        if test.reverse:
            params["reverse"] = 1
        self._totals(builder, params)
        if builder.empty and self.intervals and not self.error:
            builder.fail("its end is empty: there are no totals")
        for interval in self.intervals or ():
            if interval.sum is not None and interval.sum.seconds and not interval.sum.omitted:
                builder.add(INTERVAL, interval.sum.rate, params)
        if builder.empty and not self.error:
            builder.fail("nothing was transferred")

    def _say(self, builder: ResultBuilder) -> None:
        start, end = self.start or Start(), self.end or End()
        builder.set("version", start.version.removeprefix("iperf").strip())
        builder.set("congestion", end.sender_tcp_congestion)
        if any(stays_within(ends.local_host, ends.remote_host) for ends in start.connected):
            builder.hosts = 1
            builder.note("within_host")
        mss = start.tcp_mss or start.tcp_mss_default
        builder.set("mss", str(mss) if mss else "")
        if end.cpu_utilization_percent is not None:
            busy = end.cpu_utilization_percent
            builder.set("cpu", f"{max(busy.host_total, busy.remote_total):.0f}")

    def _totals(self, builder: ResultBuilder, params: dict[str, Scalar]) -> None:
        end = self.end or End()
        outgoing, incoming = end.sum_sent, end.sum_received
        if outgoing is None and incoming is None:  # UDP of old versions: one sum, of their own side
            outgoing, incoming = (end.sum, None) if self._sends else (None, end.sum)
        ways: tuple[tuple[Definition, _Sum | None, dict[str, Scalar]], ...] = (
            (RECEIVED, incoming, {}),
            (SENT, outgoing, {}),
            (RECEIVED, end.sum_received_bidir_reverse, {"way": "back"}),
            (SENT, end.sum_sent_bidir_reverse, {"way": "back"}),
        )
        for definition, total, way in ways:
            if total is not None and total.rate > 0:
                builder.add(definition, total.rate, {**params, **way})
        if outgoing is not None and outgoing.retransmits is not None:
            builder.add(RETRANSMITS, outgoing.retransmits, params)
        udp = end.sum if self._test.protocol == "UDP" else None
        if udp is not None and udp.jitter_ms is not None:
            builder.add(JITTER, udp.jitter_ms / 1e3, params)
        if udp is not None and udp.lost_percent is not None:
            builder.add(LOST, udp.lost_percent, params)
        if incoming is None and outgoing is not None:
            builder.note("only_sent")


def decode_report(text: str) -> Iperf3JsonReport:
    """Read a document, also one in a list, and one with figures that are not numbers."""
    text = text.rstrip().removesuffix(",")
    try:
        return decoders.decode(text, Iperf3JsonReport)
    except msgspec.DecodeError:
        return decoders.decode(_NAN.sub("null", text), Iperf3JsonReport)
