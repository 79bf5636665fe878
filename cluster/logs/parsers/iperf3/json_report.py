"""The JSON of iperf3: of `-J`, and of `--json-stream`."""

import re
from typing import Any

import msgspec

from cluster.core import decoders
from cluster.core.model.measurements import Definition
from cluster.core.model.value import Scalar
from cluster.logs.parsers import ResultBuilder, define
from cluster.logs.tcp import stays_within

_NAN = re.compile(r"(?<=[:\s])-?(?:nan|inf)\b", re.IGNORECASE)  # how cJSON writes 0/0
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
    """The parts of a document that we read."""

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
        outgoing, received = end.sum_sent, end.sum_received
        if outgoing is None and received is None:  # UDP of old versions: one sum, of their own side
            outgoing, received = (end.sum, None) if self._sends else (None, end.sum)
        ways: tuple[tuple[Definition, _Sum | None, dict[str, Scalar]], ...] = (
            (RECEIVED, received, {}),
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
        if received is None and outgoing is not None:
            builder.note("only_sent")


def decode_report(text: str) -> Iperf3JsonReport:
    """Read a document, also one in a list, and one with figures that are not numbers."""
    text = text.rstrip().removesuffix(",")
    try:
        return decoders.decode(text, Iperf3JsonReport)
    except msgspec.DecodeError:
        return decoders.decode(_NAN.sub("null", text), Iperf3JsonReport)
