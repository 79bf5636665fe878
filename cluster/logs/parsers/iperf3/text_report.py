"""The text form of iperf3."""

import re
from collections.abc import Mapping

from cluster.core.model.logs import Parsed
from cluster.core.model.value import Scalar
from cluster.logs.parsers import ResultBuilder
from cluster.logs.parsers.iperf3 import json_report
from cluster.logs.tcp import SEVERAL, SUM, Intervals, adds_up, bytes_of, is_within_host

STALLED = "stalled"  # the setting of a result of which nothing arrived
START = 0.05  # seconds: a line that begins before this is of a test's beginning, or its whole
_PREFIX = r"([KMGT]?)"
_FIGURE = r"\d{1,20}+(?:\.\d{0,20}+)?"
LINE = re.compile(  # seconds have two decimals, where iperf 2 has one or four
    r"\s*\[\s*(SUM|\d+)\](?:\[(TX|RX)-[CS]\])?\s+(\d{1,12}\.\d\d)\s*-\s*(\d{1,12}\.\d\d)"
    rf"\s+sec\s+{_FIGURE}\s+[KMGT]?Bytes\s+({_FIGURE})\s+{_PREFIX}(bits|Bytes)/sec(.*)"
)
_UDP = re.compile(r"\s+([\d.]+) ms\s+(\d+)/(\d+) \(([\d.e+-]+)%\)")
# Only a number of datagrams, where a stream of TCP has segments sent again and a window.
_SENT_UDP = re.compile(r"\s+\d+\s*(?:\(omitted\)\s*)?$")
_RETRANSMITS = re.compile(r"\s+(\d{1,15})\s+sender\s*$")
OMITTED = "(omitted)"
ROLE = re.compile(r"\b(sender|receiver)\s*$")
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
    """One test in the text form."""

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
        if text.startswith(json_report.STOPPED) and (self._totals or not self.is_begun):
            self._builder.note("server_stopped_after")
            return
        self.is_begun = True
        self._builder.fail(text)

    def ends_before(self, match: re.Match[str]) -> bool:
        """Tell whether a line of `LINE` is the first one of another test, whose head is missing."""
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
        if (connected := _CONNECTED.match(line)) and not self.is_begun:
            port = self._ports.setdefault(connected[1], connected[2])
            if port != connected[2]:
                self._builder.doubt()  # two tests have a stream of this number
        if is_within_host(line):
            self._builder.hosts = 1
            self._builder.note("within_host")
        for name, pattern in _SAID:
            matched = pattern.search(line)
            self._builder.set(name, matched[1] if matched else "")

    def row(self, match: re.Match[str]) -> bool:
        stream, named, begin, end, _, _, _, rest = match.groups()
        way, rate = named or "", _rate(match)
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
        again = _RETRANSMITS.match(rest)
        if again:
            self._again[way + stream] = int(again[1])
        if udp and (side == "receiver" or not ROLE.search(rest)):
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
        role = ROLE.search(rest) if "er" in rest else None
        if role:
            return role[1]
        # The totals of UDP have no role before 3.2; they are the sender's.
        return "sender" if self._is_old_udp and _UDP.match(rest) else ""

    def parsed(self) -> Parsed:
        builder = self._builder
        by_role = sorted(self._totals.items(), key=lambda item: item[0][0] != "receiver")
        for (role, way), totals in by_role:
            name, params = self._total(way, totals)
            if role == "sender" and way + name in self._again:
                builder.add(json_report.RETRANSMITS, self._again[way + name], params)
            if name in totals:
                builder.add(
                    json_report.RECEIVED if role == "receiver" else json_report.SENT,
                    totals[name],
                    params,
                )
        for way, datagrams in self._udp.items():
            name, params = self._total(way, dict.fromkeys(datagrams, 0.0))
            if name in datagrams:
                builder.add(json_report.JITTER, datagrams[name][0], params)
                builder.add(json_report.LOST, datagrams[name][1], params)
        if builder.empty and self.is_begun:
            self._without_totals(builder)
        if self._totals and "receiver" not in {role for role, _ in self._totals}:
            builder.note("only_sent")
        return builder.parsed()

    def _without_totals(self, builder: ResultBuilder) -> None:
        """Use the rates of the intervals, if the log contains nothing else."""
        for way, streams, values in self._intervals.together():
            for value in values:
                builder.add(json_report.INTERVAL, value, self._point(way, streams))
        if builder.empty:
            text = "there are no totals: it was stopped, or the log is cut off"
            builder.lack_rows(text, "[ID] 0.00-10.00 sec FIGURE MBytes FIGURE Mbits/sec receiver")
            return
        builder.lack("only_intervals")
        for stream, udp in self._datagrams:
            params: dict[str, Scalar] = {"stream": stream} if len(self._streams) > 1 else {}
            jitter, lost = _jitter_and_loss(udp)
            builder.add(json_report.JITTER, jitter, params)
            builder.add(json_report.LOST, lost, params)

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
    """Return the bytes per second of a line of `LINE`."""
    return float(match[5]) * bytes_of(match[6], match[7])


def _jitter_and_loss(udp: re.Match[str]) -> tuple[float, float]:
    """Return jitter in seconds, and lost datagrams in percent."""
    return float(udp[1]) / 1e3, 100 * int(udp[2]) / max(1, int(udp[3]))
