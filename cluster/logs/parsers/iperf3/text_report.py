"""The text form of iperf3."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cluster.logs.parsers import GIB, KIB, MIB, ResultBuilder
from cluster.logs.parsers.iperf3.metrics import (
    INTERVAL,
    JITTER,
    LOST,
    ONLY_INTERVALS,
    ONLY_SENT,
    RECEIVED,
    RETRANSMITS,
    SENT,
    STOPPED,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.core.model.logs import Parsed
    from cluster.core.model.value import Scalar

BITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
BYTES = {"": 1.0, "K": KIB, "M": MIB, "G": GIB, "T": 2.0**40}
_PREFIX = r"([KMGT]?)"
_FIGURE = r"\d{1,20}(?:\.\d{0,20})?"
LINE = re.compile(
    rf"\s*\[\s*(SUM|\d+)\](?:\[(TX|RX)-[CS]\])?\s+{_FIGURE}\s*-\s*{_FIGURE}\s+sec\s+"
    rf"{_FIGURE}\s+[KMGT]?Bytes\s+({_FIGURE})\s+{_PREFIX}(bits|Bytes)/sec(.*)"
)
_UDP = re.compile(r"\s+([\d.]+) ms\s+(\d+)/(\d+) \(([\d.e+-]+)%\)")
_RETRANSMITS = re.compile(r"\s+(\d{1,15})\s+sender\s*$")
OMITTED = "(omitted)"
ROLE = re.compile(r"\b(sender|receiver)\s*$")
# Above the totals of UDP in versions before 3.2, and above each interval.
_OLD_UDP = re.compile(r"\s*\[ *ID\] Interval .*\bBandwidth\b.*\bJitter\b")
_SUMMARY = re.compile(r"\s*- - ")  # the line before the totals
_SAID = (
    ("version", re.compile(r"iperf (3\.[\w.+-]+)")),
    ("mss", re.compile(r"(?:Control connection |TCP )MSS:? (\d+)")),
    ("congestion", re.compile(r"snd_tcp_congestion (\w+)")),
)


class TextReport:
    """One test in the text form.

    Args:
        first: the number of its first line in the log.

    """

    def __init__(self, first: int) -> None:
        """Begin without figures."""
        self._builder = ResultBuilder("iperf3", first, "iperf3")
        # (role, way) -> the totals of streams, and of [SUM]
        self._totals: dict[tuple[str, str], dict[str, float]] = {}
        self._streams: dict[str, None] = {}
        self._again: dict[str, int] = {}  # segments that were sent again
        self._udp: dict[str, dict[str, tuple[float, float]]] = {}  # way -> jitter and % lost
        self._params: dict[str, Scalar] = {}
        self._intervals: list[tuple[str, str, float]] = []  # stream, way, rate
        self._is_summary = self._is_old_udp = self._failed = False
        self.is_begun = False
        self.is_headed = False  # whether its first lines exist; without its last, it was stopped

    def fail(self, text: str) -> None:
        """Record a failure; a server that was stopped after the test did not fail."""
        if text.startswith(STOPPED) and (self._totals or not self.is_begun):
            self._builder.note("the server was stopped after the test")
            return
        self.is_begun = self._failed = True
        self._builder.fail(text)

    def say(self, line: str) -> None:
        """Read a line with its version or settings."""
        if line.lstrip().startswith("Reverse mode"):
            self._params["reverse"] = 1
        self._is_summary |= _SUMMARY.match(line) is not None
        self._is_old_udp |= self._is_summary and _OLD_UDP.match(line) is not None
        for name, pattern in _SAID:
            found = pattern.search(line)
            self._builder.set(name, found[1] if found else "")

    def row(self, match: re.Match[str]) -> bool:
        """Read a line of `LINE`."""
        stream, marked, figure, prefix, unit, rest = match.groups()
        way, amount = marked or "", float(figure)
        self.is_begun = True
        if stream != "SUM":
            self._streams[stream] = None
        scale = BITS[prefix] / 8 if unit == "bits" else BYTES[prefix]
        role, udp = ROLE.search(rest), _UDP.match(rest) if "%" in rest else None
        if udp is not None:
            self._params["protocol"] = "UDP"
        # The totals of UDP have no role before 3.2; they are the sender's.
        side = role[1] if role else "sender" if udp and self._is_old_udp else ""
        if not side and OMITTED not in rest:
            self._intervals.append((stream, way, amount * scale))
        if side and amount:  # without bytes, this side does not know the count of the other one
            self._totals.setdefault((side, way), {})[stream] = amount * scale
        again = _RETRANSMITS.match(rest) if role else None
        if again:
            self._again[way + stream] = int(again[1])
        if udp and (side == "receiver" or (side and not role)):
            lost = 100 * int(udp[2]) / max(1, int(udp[3]))
            self._udp.setdefault(way, {})[stream] = (float(udp[1]) / 1e3, lost)
        return True

    def parsed(self) -> Parsed:
        """Return the results that were read."""
        builder = self._builder
        by_role = sorted(self._totals.items(), key=lambda item: item[0][0] != "receiver")
        for (role, way), totals in by_role:
            name, params = self._total(way, totals)
            if role == "sender" and way + name in self._again:
                builder.add(RETRANSMITS, self._again[way + name], params)
            if name in totals:
                builder.add(RECEIVED if role == "receiver" else SENT, totals[name], params)
        for way, datagrams in self._udp.items():
            name, params = self._total(way, datagrams)
            if name in datagrams:
                builder.add(JITTER, datagrams[name][0], params)
                builder.add(LOST, datagrams[name][1], params)
        if builder.empty and self.is_begun:
            self._without_totals(builder)
        if self._totals and "receiver" not in {role for role, _ in self._totals}:
            builder.note(ONLY_SENT)
        return builder.parsed()

    def _without_totals(self, builder: ResultBuilder) -> None:
        if self._intervals and not self._failed and not self.is_headed:
            self._add_intervals(builder)
        else:
            builder.fail("there are no totals: it was stopped, or the log is cut off")

    def _add_intervals(self, builder: ResultBuilder) -> None:
        """Use the rates of the intervals, if the log contains nothing else."""
        names = dict.fromkeys(name for name, _, _ in self._intervals)
        sums = [one for one in self._intervals if one[0] == "SUM"]
        streams = len(names) - bool(sums)
        if streams > 1 and not sums:
            builder.fail(f"there are no totals, and no sums of its {streams} streams")
            return
        builder.note(ONLY_INTERVALS)
        for _, way, rate in sums or self._intervals:
            params = {**self._params, **({"way": way} if way else {})}
            params |= {"streams": streams} if streams else {}
            builder.add(INTERVAL, rate, params)

    def _total(self, way: str, found: Mapping[str, object]) -> tuple[str, dict[str, Scalar]]:
        """Choose the total of all streams: their sum, or the only stream."""
        streams = [name for name in self._streams if not way or name in found]
        params = {**self._params, **({"streams": len(streams)} if streams else {})}
        if way:
            params["way"] = way
        return "SUM" if len(streams) > 1 else next(iter(found)), params
