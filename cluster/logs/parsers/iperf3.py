"""iperf3: JSON (`-J`), several documents in one file too, and text.

GBytes are 2**30 bytes and Gbits 1e9 bits. The figure is the receiver's, of all streams together;
the sender's counts what its kernel took.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from cluster.core.model.measurements import Definition
from cluster.logs.parsers import GIB, KIB, MIB, Parser, ResultBuilder, number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.core.model.logs import Parsed
    from cluster.core.model.value import Scalar

ONLY_SENT = "there is only the sender's figure: some of its bytes may not have arrived"

_iperf = partial(
    Definition,
    benchmark="iperf3",
    clock="iperf3's own, on the host that counted",
    synchronisation="the sender begins when the receiver listens",
    warm_up="the seconds of --omit are not counted; none unless said otherwise",
    unit="B/s",
    better="higher",
)
RECEIVED = _iperf(
    metric="received",
    what="bytes that the receiver took, all streams together, over its seconds; printed in bit/s",
    aggregation="all ranks",
    flow="one way",
    medium="TCP",
)
SENT = _iperf(
    metric="sent",
    what="bytes that the sender's kernel took, all streams together, over its seconds; in bit/s",
    aggregation="all ranks",
    flow="one way",
    medium="TCP",
)
INTERVAL = _iperf(
    metric="interval",
    what="bytes of each interval, all streams together, over its seconds, on the side that wrote "
    "the log; omitted intervals are left out",
    aggregation="all ranks",
    flow="one way",
    medium="TCP",
)
LOST = _iperf(
    metric="lost",
    unit="%",
    better="lower",
    what="UDP datagrams that did not arrive, in percent of those sent",
    aggregation="all ranks",
)
RETRANSMITS = _iperf(
    metric="retransmits",
    unit="segments",
    better="lower",
    what="segments of TCP that the sender sent again, all streams together",
    aggregation="all ranks",
)
JITTER = _iperf(
    metric="jitter",
    unit="s",
    better="lower",
    what="jitter of UDP datagrams (RFC 1889); printed in ms",
    aggregation="all ranks",
)

BITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
BYTES = {"": 1.0, "K": KIB, "M": MIB, "G": GIB, "T": 2.0**40}
_PREFIX = r"([KMGT]?)"
_LINE = re.compile(
    r"\s*\[\s*(SUM|\d+)\](?:\[(TX|RX)-[CS]\])?\s+([\d.]+)\s*-\s*([\d.]+)\s+sec\s+"
    rf"([\d.]+)\s+{_PREFIX}Bytes\s+([\d.]+)\s+{_PREFIX}(bits|Bytes)/sec(.*)"
)
# What no line of iperf 2 has: a log that was pasted without its head is known by it.
_OURS = re.compile(
    r"\s*\[ *(?:SUM|\d+)\]"
    r"(?:\[[TR]X-[CS]\]|\s+\d+\.\d\d-\d+\.\d\d\s{2,}sec | +local .* connected to )"
    r"|\s*\[ *ID\](?:\[Role\])? Interval .*\b(?:Bitrate|Retr)\b"
)
_UDP = re.compile(r"\s+([\d.]+) ms\s+(\d+)/(\d+) \(([\d.e+-]+)%\)")
EVENT = 64  # characters at the beginning of a line of `--json-stream`, which name its event
_NAN = re.compile(r"(?<=[:\s])-?(?:nan|inf)\b", re.IGNORECASE)  # as cJSON wrote 0/0
_RETRANSMITS = re.compile(r"\s+(\d{1,15})\s+sender\s*$")
_ROLE = re.compile(r"\b(sender|receiver)\s*$")
_HEAD = re.compile(r"\s*(?:Connecting to host|Accepted connection from|Reverse mode,|iperf 3\.)")
# Above the totals of UDP in versions before 3.2, and above each interval.
_OLD_UDP = re.compile(r"\s*\[ *ID\] Interval .*\bBandwidth\b.*\bJitter\b")
_SUMMARY = re.compile(r"\s*- - ")  # stands before the totals
STOPPED = "interrupt - the server has terminated"  # as every server is in the end
_KNOWN = re.compile(
    r"\s*(?:- -|Server output:|\[SUM\] .*datagrams received out-of-order|"
    r"\[ *\d+\] Sent \d+ datagrams|-{10,}|\[ *ID\]|"
    r"\[ *\d+\](?:\[[TR]X-[CS]\])? +local .* connected to |"
    r"Server listening on \d|iperf Done|Test Complete|"
    r"CPU Utilization|Control connection MSS|Time:|Cookie:|TCP MSS|Starting Test|snd_tcp|rcv_tcp|"
    r"Linux \S+ \d|Cookie)"
)
_SAID = (
    ("version", re.compile(r"iperf (3\.[\w.+-]+)")),
    ("mss", re.compile(r"(?:Control connection |TCP )MSS:? (\d+)")),
    ("congestion", re.compile(r"snd_tcp_congestion (\w+)")),
)
_ERROR = re.compile(
    r"\s*(?:iperf3: )?"
    r"((?:error - |interrupt - ).*|unable to .*|the (?:client|server) has terminated)"
)


class Iperf3(Parser):
    """iperf3: the receiver's figure, in bits per second; its GBytes are 2**30 bytes."""

    marks: ClassVar[tuple[str, ...]] = (
        *("iperf3", "iperf 3.", "Connecting to host", "Accepted connection from", "sum_received"),
        *("test_start", '"intervals"', '"event"', "receiver", "connected to", "Bitrate"),
    )
    definitions: ClassVar[tuple[Definition, ...]] = (
        *(RECEIVED, SENT, INTERVAL, RETRANSMITS, LOST, JITTER),
    )

    def __init__(self) -> None:
        """Begin outside any test."""
        self._parsed: list[Parsed] = []
        self._text: _Text | None = None
        self._stream: _Document | None = None  # of `--json-stream`, as far as it is there
        self._stream_at = 0

    def take(self, line: str, number: int) -> bool:
        """Read a line of the text form."""
        if _HEAD.match(line):
            if self._text is None or self._text.is_begun:
                self._close()
                self._text = _Text(number)
            self._text.say(line)
            return True
        error = _ERROR.match(line)
        if error:
            self._open(number).fail(error[1])
            return True
        match = _LINE.match(line)
        if _OURS.match(line):
            self._open(number)
        if match is None:
            known = self._text is not None and _KNOWN.match(line) is not None
            if known and self._text is not None:
                self._text.say(line)
            return known
        if self._text is None and not _ROLE.search(line):
            return False  # a line of iperf2 has no role
        return self._open(number).row(match)

    def take_document(self, text: str, number: int) -> bool:
        """Read a document of `-J`."""
        try:
            if '"event"' in text[:EVENT]:
                return self._event(msgspec.json.decode(text, type=_Event), number)
            document = _decoded(text)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return self._torn(text, number)
        if document.is_any:
            return self._document(document, number)
        return document.title.startswith("iperf ") and self._torn(text, number)

    def _event(self, event: _Event, number: int) -> bool:
        """Read a line of `--json-stream`, which has a document for each part of a document."""
        data = event.data
        if event.event == "start":
            start = msgspec.json.decode(data, type=_Start)
            if not start.version.startswith("iperf"):
                return False  # of another program
            self._end_stream()
            self._stream, self._stream_at = _Document(start=start, intervals=[]), number
        elif self._stream is None:
            return False
        elif event.event == "interval" and self._stream.intervals is not None:
            self._stream.intervals.append(msgspec.json.decode(data, type=_Interval))
        elif event.event == "end":
            self._stream.end = msgspec.json.decode(data, type=_End)
        elif event.event == "error":
            self._stream.error = msgspec.json.decode(data, type=str)
        return True

    def _end_stream(self) -> None:
        document, self._stream = self._stream, None
        if document is None:
            return
        if not document.is_any:
            document.error = "its end is missing: it was stopped, or the log is cut off"
        self._document(document, self._stream_at)

    def _document(self, document: _Document, number: int) -> bool:
        sheet = ResultBuilder("iperf3", number, document.title)
        document.fill(sheet)
        self._parsed.append(sheet.parsed())
        return True

    def results(self) -> tuple[Parsed, ...]:
        """Give a result per test."""
        self._close()
        self._end_stream()
        return tuple(self._parsed)

    def _torn(self, text: str, number: int) -> bool:
        """Say of a document without an end that it is one: its totals are lost."""
        if '"test_start"' not in text and '"intervals"' not in text:
            return False
        sheet = ResultBuilder("iperf3", number, "iperf3")
        sheet.fail("the JSON document is broken or cut off: there are no totals")
        self._parsed.append(sheet.parsed())
        return True

    def _open(self, number: int) -> _Text:
        if self._text is None:
            self._text = _Text(number)
        return self._text

    def _close(self) -> None:
        if self._text is not None:
            self._parsed.append(self._text.parsed())
            self._text = None


def _decoded(text: str) -> _Document:
    """Read a document, also one of a list, and with figures that are no numbers."""
    text = text.rstrip().removesuffix(",")
    try:
        return msgspec.json.decode(text, type=_Document)
    except msgspec.DecodeError:
        return msgspec.json.decode(_NAN.sub("null", text), type=_Document)


class _Text:
    """One test in the text form."""

    def __init__(self, first: int) -> None:
        self._sheet = ResultBuilder("iperf3", first, "iperf3")
        # (role, way) -> the totals of streams, and of [SUM]
        self._totals: dict[tuple[str, str], dict[str, float]] = {}
        self._streams: dict[str, None] = {}
        self._again: dict[str, int] = {}  # segments that were sent again
        self._udp: dict[str, dict[str, tuple[float, float]]] = {}  # way -> jitter and % lost
        self._params: dict[str, Scalar] = {}
        self._is_summary = self._is_old_udp = False
        self.is_begun = False

    def fail(self, text: str) -> None:
        if text.startswith(STOPPED) and (self._totals or not self.is_begun):
            self._sheet.note("the server was stopped after the test")
            return
        self.is_begun = True
        self._sheet.fail(text)

    def say(self, line: str) -> None:
        """Read what it says of itself."""
        if line.lstrip().startswith("Reverse mode"):
            self._params["reverse"] = 1
        self._is_summary |= _SUMMARY.match(line) is not None
        self._is_old_udp |= self._is_summary and _OLD_UDP.match(line) is not None
        for name, pattern in _SAID:
            found = pattern.search(line)
            self._sheet.set(name, found[1] if found else "")

    def row(self, match: re.Match[str]) -> bool:
        stream, way, begin, end = match[1], match[2] or "", number(match[3]), number(match[4])
        amount = number(match[7])
        if begin is None or end is None or amount is None:
            return False
        self.is_begun = True
        if stream != "SUM":
            self._streams[stream] = None
        scale = BITS[match[8]] / 8 if match[9] == "bits" else BYTES[match[8]]
        role, udp = _ROLE.search(match[10]), _UDP.match(match[10])
        if udp is not None:
            self._params["protocol"] = "UDP"
        # The totals of UDP have no role before 3.2; they are the sender's.
        side = role[1] if role else "sender" if udp and self._is_old_udp else ""
        if side and amount:  # no bytes: this side does not know what the other one counted
            self._totals.setdefault((side, way), {})[stream] = amount * scale
        again = _RETRANSMITS.match(match[10])
        if again:
            self._again[way + stream] = int(again[1])
        if udp and (side == "receiver" or (side and not role)):
            lost = 100 * int(udp[2]) / max(1, int(udp[3]))
            self._udp.setdefault(way, {})[stream] = (float(udp[1]) / 1e3, lost)
        return True

    def parsed(self) -> Parsed:
        sheet = self._sheet
        by_role = sorted(self._totals.items(), key=lambda item: item[0][0] != "receiver")
        for (role, way), totals in by_role:
            name, params = self._total(way, totals)
            if role == "sender" and way + name in self._again:
                sheet.add(RETRANSMITS, self._again[way + name], params)
            if name in totals:
                sheet.add(RECEIVED if role == "receiver" else SENT, totals[name], params)
        for way, datagrams in self._udp.items():
            name, params = self._total(way, datagrams)
            if name in datagrams:
                sheet.add(JITTER, datagrams[name][0], params)
                sheet.add(LOST, datagrams[name][1], params)
        if sheet.empty and self.is_begun:
            sheet.fail("there are no totals: it was stopped, or the log is cut off")
        if self._totals and "receiver" not in {role for role, _ in self._totals}:
            sheet.note(ONLY_SENT)
        return sheet.parsed()

    def _total(self, way: str, found: Mapping[str, object]) -> tuple[str, dict[str, Scalar]]:
        """Name what is of all streams together: their sum, or the only one."""
        streams = [name for name in self._streams if not way or name in found]
        params = {**self._params, "streams": max(1, len(streams))}
        if way:
            params["way"] = way
        return "SUM" if len(streams) > 1 else next(iter(found)), params


class _Sum(msgspec.Struct):
    """A sum over streams."""

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


class _Interval(msgspec.Struct):
    """One interval."""

    sum: _Sum | None = None


class _Udp(msgspec.Struct):
    """What the end says of a stream of UDP."""

    udp: _Sum | None = None


class _Cpu(msgspec.Struct):
    """How busy the processors were with it, in percent of one."""

    host_total: float = 0.0
    remote_total: float = 0.0


class _End(msgspec.Struct):
    """The end."""

    streams: list[_Udp] = []
    sum: _Sum | None = None
    sum_sent: _Sum | None = None
    sum_received: _Sum | None = None
    sum_sent_bidir_reverse: _Sum | None = None
    sum_received_bidir_reverse: _Sum | None = None
    sender_tcp_congestion: str = ""
    cpu_utilization_percent: _Cpu | None = None


class _TestStart(msgspec.Struct):
    """What was asked."""

    protocol: str = "TCP"
    num_streams: int = 1
    omit: float = 0
    reverse: int = 0
    bidir: int = 0


class _Start(msgspec.Struct):
    """The start."""

    version: str = ""
    connecting_to: dict[str, Any] | None = None
    tcp_mss: int = 0
    tcp_mss_default: int = 0
    test_start: _TestStart | None = None


class _Event(msgspec.Struct):
    """A line of `--json-stream`."""

    event: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")


class _Document(msgspec.Struct):
    """What we read of a document."""

    start: _Start | None = None
    intervals: list[_Interval] | None = None
    end: _End | None = None
    error: str = ""
    title_: str | None = msgspec.field(default=None, name="title")

    @property
    def is_any(self) -> bool:
        return self.start is not None and (self.end is not None or bool(self.error))

    @property
    def title(self) -> str:
        return (self.start.version if self.start else "") or "iperf3"

    @property
    def _test(self) -> _TestStart:
        return (self.start and self.start.test_start) or _TestStart()

    @property
    def _sends(self) -> bool:
        """Whether the side that wrote it sent."""
        is_client = self.start is not None and self.start.connecting_to is not None
        return is_client != bool(self._test.reverse)

    def fill(self, sheet: ResultBuilder) -> None:
        """Give a sheet all of it."""
        if self.error.startswith(STOPPED) and not (self.start and self.start.test_start):
            sheet.note("the server was stopped")
        elif self.error:
            sheet.fail(self.error)
        self._say(sheet)
        test = self._test
        params: dict[str, Scalar] = {"protocol": test.protocol, "streams": test.num_streams}
        if test.reverse:
            params["reverse"] = 1
        self._totals(sheet, params)
        if sheet.empty and self.intervals and not self.error:
            sheet.fail("its end is empty: there are no totals")
        for interval in self.intervals or ():
            if interval.sum is not None and interval.sum.seconds and not interval.sum.omitted:
                sheet.add(INTERVAL, interval.sum.rate, params)
        if sheet.empty and not self.error:
            sheet.fail("nothing was transferred")

    def _say(self, sheet: ResultBuilder) -> None:
        """Say what it was run with, which explains some figures."""
        start, end = self.start or _Start(), self.end or _End()
        sheet.set("version", start.version.removeprefix("iperf").strip())
        sheet.set("congestion", end.sender_tcp_congestion)
        mss = start.tcp_mss or start.tcp_mss_default
        sheet.set("mss", str(mss) if mss else "")
        if end.cpu_utilization_percent is not None:
            busy = end.cpu_utilization_percent
            sheet.set("cpu", f"{max(busy.host_total, busy.remote_total):.0f}")

    def _totals(self, sheet: ResultBuilder, params: dict[str, Scalar]) -> None:
        end = self.end or _End()
        sent, received = end.sum_sent, end.sum_received
        if (
            sent is None and received is None
        ):  # of UDP, old versions have one sum, of their own side
            sent, received = (end.sum, None) if self._sends else (None, end.sum)
        ways: tuple[tuple[Definition, _Sum | None, dict[str, Scalar]], ...] = (
            (RECEIVED, received, {}),
            (SENT, sent, {}),
            (RECEIVED, end.sum_received_bidir_reverse, {"way": "back"}),
            (SENT, end.sum_sent_bidir_reverse, {"way": "back"}),
        )
        for definition, total, way in ways:
            if total is not None and total.rate > 0:
                sheet.add(definition, total.rate, {**params, **way})
        if sent is not None and sent.retransmits is not None:
            sheet.add(RETRANSMITS, sent.retransmits, params)
        udp = end.sum if self._test.protocol == "UDP" else None
        if udp is not None and udp.jitter_ms is not None:
            sheet.add(JITTER, udp.jitter_ms / 1e3, params)
        if udp is not None and udp.lost_percent is not None:
            sheet.add(LOST, udp.lost_percent, params)
        if received is None and sent is not None:
            sheet.note(ONLY_SENT)
