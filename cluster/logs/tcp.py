"""What logs of TCP and UDP share: rates of intervals, and whether a test stayed within one host.

Logs of iperf that were pasted in part, or are of a stopped test, hold intervals and no totals.

A test of several streams prints a line per stream and interval, and perhaps one for their sum.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

SEVERAL = "several"  # how many streams there are, if that is not known
SUM = "SUM"  # the name of the line that adds up the streams of an interval
SLACK = 0.05  # by which a sum may differ from its streams, as each is rounded
PREFIXES = ("", "K", "M", "G", "T")
DIGITS = 1  # decimals of seconds to which lines of one interval agree

_Rates = dict[str, float]  # of streams and their sum, in bytes per second


@cache
def bytes_of(prefix: str, unit: str) -> float:
    """Return an iperf unit, such as `G` and `Bytes`, in bytes: GBytes are 2**30, Gbits 1e9 bits."""
    power = PREFIXES.index(prefix)
    return 1e3**power / 8 if unit == "bits" else 1024.0**power


class Rates(NamedTuple):
    """Bytes per second of all streams of one direction in each interval.

    `streams` is `SEVERAL` if lines of some are missing, as the sum shows.
    """

    way: str
    streams: int | str
    values: list[float]


class Intervals:
    """The intervals of one test."""

    def __init__(self) -> None:
        self._ways: dict[str, dict[tuple[float, float], _Rates]] = {}  # by direction and interval

    def add(self, stream: str, way: str, span: tuple[float, float], rate: float) -> None:
        """Add a line of a stream, or `SUM`: begin and end in seconds, bytes per second."""
        begin, end = round(span[0], DIGITS), round(span[1], DIGITS)
        self._ways.setdefault(way, {}).setdefault((begin, end), {})[stream] = rate

    def together(self) -> list[Rates]:
        """Return the rates of each direction, of the intervals that have all its streams."""
        return [_together(way, _parts(spans)) for way, spans in self._ways.items()]


def _parts(spans: Mapping[tuple[float, float], _Rates]) -> dict[tuple[float, float], _Rates]:
    """Leave out reports on the whole test: a shorter interval begins where they do."""
    ends: dict[float, float] = {}
    for begin, end in spans:
        ends[begin] = min(end, ends.get(begin, end))
    return {span: rates for span, rates in spans.items() if ends[span[0]] == span[1]}


def _together(way: str, spans: Mapping[tuple[float, float], _Rates]) -> Rates:
    streams = {name for rates in spans.values() for name in rates} - {SUM}
    whole = [rates for rates in spans.values() if SUM in rates or len(rates) == len(streams)]
    values = [rates.get(SUM, sum(rates.values())) for rates in whole]
    is_whole = all(adds_up(rates) for rates in spans.values() if SUM in rates)
    return Rates(way, len(streams) if is_whole else SEVERAL, values)


def adds_up(rates: Mapping[str, float]) -> bool:
    """Tell whether the rates of streams, or their bytes, add up to `SUM`, if there is one."""
    total = sum(value for name, value in rates.items() if name != SUM)
    return abs(rates.get(SUM, total) - total) <= SLACK * total


_ENDS = re.compile(r"\blocal (\S+) port \d+ connected (?:to|with) (\S+) port \d+")
_PEER = re.compile(
    r"(?:Connecting to host|Client connecting to|AF_INET6? to) (\S+?),?(?: \(([^()\s]*)\))?(?= |$)"
)
_LOOPBACK = re.compile(r"localhost\b|127\.\d|::1(?:%\w+)?$|::ffff:127\.", re.IGNORECASE)


def stays_within(local: str, peer: str) -> bool:
    """Tell whether two addresses are of one host; the own one (`local`) may be empty.

    Two hosts that are simulated on one are not recognised.
    """
    return (local == peer and bool(peer)) or _LOOPBACK.match(peer) is not None


def is_within_host(line: str) -> bool:
    """Tell whether a line such as `local ::1 port 4 connected to ::1 port 5201` is of one host."""
    if ends := _ENDS.search(line):
        return stays_within(ends[1], ends[2])
    peer = _PEER.search(line)
    return peer is not None and any(stays_within("", name) for name in peer.groups() if name)
