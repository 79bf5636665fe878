"""iperf 2: text and `-y C`.

GBytes are 2**30 bytes and Gbits 1e9 bits. A client's figure counts what it sent, a server's what it
received; if the log does not say which side wrote it, the metric is `rate`. If the report of the
whole test is missing, there are the rates of its intervals.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cluster.logs.parsers import Parser
from cluster.logs.parsers.iperf2 import metrics
from cluster.logs.parsers.iperf2.report import Iperf2Test, StreamReport
from cluster.logs.tcp import SUM

if TYPE_CHECKING:
    from cluster.core.model.logs import Parsed


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
    definitions = metrics.DEFINITIONS

    def __init__(self) -> None:
        self._parsed: list[Parsed] = []  # of the tests before these
        self._tests: list[Iperf2Test] = []
        self._owners: dict[str, Iperf2Test] = {}  # of streams
        self._port = ""  # that the last server listens on

    def take(self, line: str, lineno: int) -> bool:
        """Read a line of text or CSV."""
        row = _LINE.match(line) if "/sec" in line else None
        if row:
            return not row[10].rstrip().endswith(("sender", "receiver")) and self._row(row, lineno)
        if "onnect" in line or "listening" in line:
            return self._begin(line, lineno) or self._other(line)
        if "," in line and _CSV.match(line):
            return self._open(lineno).csv(line.strip().split(","))
        return self._other(line)

    def _begin(self, line: str, lineno: int) -> bool:
        """Read a line that begins a test, or that a stream connected."""
        client, server, connected = (p.match(line) for p in (_CLIENT, _SERVER, _CONNECTED))
        if client:
            test = self._head(lineno, "client", client[2])
            self._tests[-1].stay(line)
            return test
        if server:
            self._port = server[2]
            return self._head(lineno, "server", server[1])
        return connected is not None and self._connect(connected, lineno)

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
        newest.name(role, protocol)
        return True

    def _connect(self, match: re.Match[str], lineno: int) -> bool:
        """Read that a stream connected; after the figures of a test, it belongs to the next one."""
        test = self._dual(match[2]) if self._is_dual else self._open(lineno)
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
        for each in self._tests[-2:] if name == SUM and self._is_dual else (test,):
            each.row(name, flow, match)
        return True

    @property
    def _is_dual(self) -> bool:
        """Whether the last two tests are the two sides of one host (-d, -r)."""
        roles = [test.role for test in self._tests[-2:]]
        return roles == ["server", "client"] and self._tests[-1].is_beside

    def _dual(self, port: str) -> Iperf2Test:
        """Find the side that a stream belongs to: a server's stream has the server's port here."""
        server, client = self._tests[-2:]
        return server if port == self._port else client

    def _new(self, lineno: int, like: Iperf2Test | None = None) -> Iperf2Test:
        newest = self._tests[-1] if self._tests else None
        # A server that only printed that it listens is the other side of this client.
        is_server_side = newest is not None and newest.role == "server"
        self._tests.append(Iperf2Test(lineno, is_beside=like is None and is_server_side))
        while len(self._tests) > OPEN and self._tests[0] not in self._owners.values():
            self._parsed.append(self._tests.pop(0).parsed())
        if like is not None:
            self._tests[-1].role, self._tests[-1].protocol = like.role, like.protocol
        return self._tests[-1]

    def _open(self, lineno: int) -> Iperf2Test:
        return self._tests[-1] if self._tests else self._new(lineno)

    def results(self) -> tuple[Parsed, ...]:
        """Return a result per client or server."""
        return (*self._parsed, *(test.parsed() for test in self._tests))
