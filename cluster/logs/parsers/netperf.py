"""netperf: streams (10^6 bits per second) and request/response tests, in their classic tables.

The second row of a UDP stream is what arrived. https://hewlettpackard.github.io/netperf
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from cluster.core.model.measurements import Definition
from cluster.logs.parsers import RunParser, count, numbers

if TYPE_CHECKING:
    from cluster.core.model.value import Scalar
    from cluster.logs.parsers import ResultBuilder

_netperf = partial(
    Definition,
    benchmark="netperf",
    clock="gettimeofday of the client",
    synchronisation="the test begins when the control connection is set up",
    warm_up="none",
    aggregation="one rank",
)
STREAM = _netperf(
    metric="stream_bandwidth",
    unit="B/s",
    better="higher",
    what="bytes that arrived over the time; printed in 10^6 bits per second",
    flow="one way",
    medium="TCP",
)
SENT = _netperf(
    metric="sent_bandwidth",
    unit="B/s",
    better="higher",
    what="bytes of UDP that were sent over the time; printed in 10^6 bits per second",
)
RATE = _netperf(
    metric="transaction_rate",
    unit="transactions/s",
    better="higher",
    what="requests with their responses per second, one after another",
)
_TITLE = re.compile(
    r"\s*(?:MIGRATED )?((?:TCP|UDP|SCTP|UNIX|DLPI)[ _]"
    r"(?:STREAM|MAERTS|SENDFILE|REQUEST/RESPONSE|Connect/Request/Response|RR|CRR)"
    r") TEST\b"
)
_UNITS = re.compile(r"10\^(\d)(bits|bytes)/s")
_HEAD = re.compile(
    r"\s*(?:Recv\s+Send\s+Send|Local\s*/\s*Remote|Socket\s+(?:Socket\s+)?(?:Message|Size)|"
    r"Size\s+Size|Send\s+Recv\s+Size|bytes\s+[Bb]ytes)"
)
_FAILED = re.compile(r".*((?:establish control|netperf: |recv_response: |send_\w+: |catcher: ).*)")
RR, STREAMS, DATAGRAMS = 6, 5, 6  # cells of a row


class Netperf(RunParser):
    """netperf: streams in 10^6 bits per second, transactions per second."""

    marks: ClassVar[tuple[str, ...]] = (" TEST from ", " TEST to ", "netperf")
    has_rows: ClassVar[bool] = True
    definitions: ClassVar[tuple[Definition, ...]] = (STREAM, SENT, RATE)
    title: ClassVar[str] = "netperf"

    def __init__(self) -> None:
        """Begin outside any test."""
        super().__init__()
        self._scale = 0.0
        self._is_request = self._is_udp = False
        self._rows = 0

    def take(self, line: str, number: int) -> bool:
        """Read a title, a header or a row."""
        title = _TITLE.match(line)
        if title:
            self._begin(number, title[1])
            self._is_request = "equest" in title[1].lower() or title[1].endswith("RR")
            self._is_udp = title[1].startswith("UDP") and not self._is_request
            self._scale, self._rows = 0.0, 0
            return True
        if self._run is None:
            return False
        unit, failed = _UNITS.search(line), _FAILED.match(line)
        if unit:
            self._scale = 10.0 ** int(unit[1]) / (8 if unit[2] == "bits" else 1)
        elif line.lstrip()[:1].isdigit():
            return self._row(self._run, line.split())
        elif failed:
            self._run.fail(failed[1])
        else:
            return _HEAD.match(line) is not None
        return True

    def _row(self, run: ResultBuilder, cells: list[str]) -> bool:
        values = numbers(cells)
        if values is None or count(cells[0]) is None:
            return False
        if self._is_request:
            done = self._request(run, cells, values)
        elif self._is_udp:
            done = self._datagrams(run, cells, values)
        else:
            done = self._stream(run, cells, values)
        self._rows += done
        return done

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

    def _datagrams(self, run: ResultBuilder, cells: list[str], values: list[float]) -> bool:
        if not self._scale:
            return False
        if not self._rows and len(cells) == DATAGRAMS:
            self._size = int(values[1])
            run.add(SENT, values[5] * self._scale, {"test": run.title, "size": self._size})
            return True
        if self._rows != 1 or len(cells) != 4:  # noqa: PLR2004 - buffer, time, messages, rate
            return False
        run.add(STREAM, values[3] * self._scale, {"test": run.title, "size": self._size})
        return True
