"""k8s-bench-suite (knb): bandwidth from pod to pod and to a service, TCP and UDP.

https://github.com/InfraBuilder/k8s-bench-suite
"""

import re

from cluster.core.model.value import Scalar
from cluster.logs.parsers import ResultBuilder, RunParser, define, number

(BANDWIDTH,) = DEFINITIONS = define(
    "knb",
    """
    bandwidth (B/s, one way, TCP): what iperf3's receiver took, mean over the test; printed in
        Mbit/s
    """,
    clock="iperf3's own",
    synchronisation="the sender begins when the receiver listens",
    warm_up="none",
)
_START = re.compile(r"\s*Benchmark Results\s*$|\s*generator: \"?knb\"?\s*$")
_PATH = re.compile(
    r"\s*((?:Pod|Node) to (?:pod|service|node)|Idle|pod2pod|pod2svc|node2node)\s*:\s*$",
    re.IGNORECASE,
)
_PROTOCOL = re.compile(r"\s*(TCP|UDP)\s*:\s*$", re.IGNORECASE)
_FIGURE = re.compile(r"\s*bandwidth(?: = (\d[\d.]*) ([KMG])bit/s|: (\d[\d.]*))\s*$")
_KNOWN = re.compile(
    r"\s*(?:={10,}|-{10,}|(?:Name|Date|Generator|Version|Server|Client|UDP Socket size)\s+: "
    r"|Discovered [\w ]+ : |(?:client|server) (?:cpu = total|ram = \d+ MB)"
    r"|(?:metadata|data|name|version|date|(?:server|client)-node|socket-buffer-size|cpu|kernel"
    r"|k8s-version|mtu|client|server|total|user|nice|system|iowait|steal|ram):(?:\s|$))"
)
_JSON = re.compile(r"[{},\n]+")
_GENERATED = re.compile(r"\"generator\"\s*:\s*\"knb\"")
SCALES = {"K": 1e3 / 8, "M": 1e6 / 8, "G": 1e9 / 8}
PATHS = {"pod2pod": "pod to pod", "pod2svc": "pod to service", "node2node": "node to node"}


class Knb(RunParser):
    """k8s-bench-suite: Mbit/s between pods, and through services; as text, YAML or JSON."""

    marks = ("bit/s", "generator")
    definitions = DEFINITIONS
    title = "k8s-bench-suite"
    _path = _protocol = ""
    _protocols: tuple[str, ...] = ()  # of this path

    def take(self, line: str, lineno: int) -> bool:
        path, protocol, figure = _PATH.match(line), _PROTOCOL.match(line), _FIGURE.match(line)
        if _START.match(line):
            self._begin(lineno)
            self._path = self._protocol = ""
        elif path and (self._run or " to " in path[1]):
            self._open(lineno)
            self._path, self._protocol = PATHS.get(path[1], path[1].lower()), ""
            self._protocols = ()
        elif protocol and self._run:
            self._protocol = protocol[1].upper()
            if self._protocol in self._protocols:
                self._path = ""  # of another path, whose name is missing
            self._protocols += (self._protocol,)
        elif figure and self._run:
            return self._figure(self._run, figure)
        else:
            return self._run is not None and _KNOWN.match(line) is not None
        return True

    def _figure(self, run: ResultBuilder, figure: re.Match[str]) -> bool:
        value = number(figure[1] or figure[3])  # YAML and JSON have Mbit/s without the unit
        point: dict[str, Scalar] = {"path": self._path, "protocol": self._protocol}
        self._protocol = ""
        if self._path == "idle":
            return value is not None  # it moves nothing
        if value is None or not all(point.values()):
            return False
        run.add(BANDWIDTH, value * SCALES[figure[2] or "M"], point)
        return True

    def take_document(self, text: str, lineno: int) -> bool:
        """Read the JSON, which has a comma too many where tests were left out, as the YAML."""
        if not _GENERATED.search(text):
            return False
        for part in _JSON.split(text):
            self.take(part.replace('"', "").replace(" :", ":"), lineno)
        self._end()
        return True
