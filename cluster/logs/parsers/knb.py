"""k8s-bench-suite (knb): bandwidth from pod to pod and to a service, TCP and UDP.

https://github.com/InfraBuilder/k8s-bench-suite
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from cluster.core.model.measurements import Definition
from cluster.logs.parsers import RunParser, number

if TYPE_CHECKING:
    from cluster.core.model.value import Scalar
    from cluster.logs.parsers import ResultBuilder

BANDWIDTH = Definition(
    benchmark="knb",
    metric="bandwidth",
    unit="B/s",
    better="higher",
    what="what iperf3's receiver took, mean over the test; printed in Mbit/s",
    clock="iperf3's own",
    synchronisation="the sender begins when the receiver listens",
    warm_up="none",
    aggregation="one rank",
    flow="one way",
    medium="TCP",
)
_START = re.compile(r"\s*Benchmark Results\s*$")
_PATH = re.compile(r"\s*(Pod to (?:pod|service)|Idle)\s*:\s*$", re.IGNORECASE)
_PROTOCOL = re.compile(r"\s*(TCP|UDP)\s*:\s*$")
_FIGURE = re.compile(r"\s*bandwidth = (\d[\d.]*) ([KMG])bit/s\s*$")
_KNOWN = re.compile(
    r"\s*(?:={10,}|-{10,}|Name\s+: knb|Date\s+: \d|(?:client|server) (?:cpu|ram) = total)"
)
SCALES = {"K": 1e3 / 8, "M": 1e6 / 8, "G": 1e9 / 8}


class Knb(RunParser):
    """k8s-bench-suite: Mbit/s between pods, and through services."""

    marks: ClassVar[tuple[str, ...]] = ("bit/s",)
    definitions: ClassVar[tuple[Definition, ...]] = (BANDWIDTH,)
    title: ClassVar[str] = "k8s-bench-suite"

    def __init__(self) -> None:
        """Begin outside any test."""
        super().__init__()
        self._path = self._protocol = ""
        self._protocols: set[str] = set()  # of this path

    def take(self, line: str, number_: int) -> bool:
        """Read the path of the packets, or a bandwidth."""
        path, protocol, figure = _PATH.match(line), _PROTOCOL.match(line), _FIGURE.match(line)
        if path or _START.match(line):
            if self._run is None or not path:
                self._begin(number_)
            self._path, self._protocol = path[1].lower() if path else "", ""
            self._protocols.clear()
        elif self._run is None:
            return False
        elif protocol:
            if protocol[1] in self._protocols:
                self._path = ""  # of another path, whose name is missing
            self._protocol = protocol[1]
            self._protocols.add(protocol[1])
        elif figure:
            return self._figure(self._run, figure)
        else:
            return _KNOWN.match(line) is not None
        return True

    def _figure(self, run: ResultBuilder, figure: re.Match[str]) -> bool:
        value, protocol, self._protocol = number(figure[1]), self._protocol, ""
        if value is None or not self._path or (self._path != "idle" and not protocol):
            return False
        if self._path != "idle":  # which moves nothing
            point: dict[str, Scalar] = {"path": self._path, "protocol": protocol}
            run.add(BANDWIDTH, value * SCALES[figure[2]], point)
        return True
