"""qperf: TCP, UDP and RDMA tests, one after another.

GB/sec are 1e9 bytes. `tcp_lat` and its kind are one way. https://github.com/linux-rdma/qperf
"""

import re

from cluster.core.model.results.measurements import Definition
from cluster.core.model.value import Scalar
from cluster.logs.parsers import RunParser, define, number

LATENCY, BANDWIDTH, RDMA, BOTH, OTHER, RATE = DEFINITIONS = define(
    "qperf",
    """
    latency (s): one way: half of a round trip, mean over the time of the test
    bandwidth (B/s, one way, TCP): of TCP and SCTP: bytes over the time; units of 1000
    rdma_bandwidth (B/s, one way, RDMA): bytes over the time; units of 1000
    bidirectional (B/s, both ways, RDMA): bytes of both directions over the time; units of 1000
    other_bandwidth (B/s): of UDP, SDP and RDS: bytes over the time; units of 1000
    message_rate (messages/s): messages per second
    """,
    clock="gettimeofday of each side",
    synchronisation="the client begins when the server is ready",
    warm_up="none",
)
_TEST = re.compile(r"\s*((?:tcp|udp|sctp|sdp|rds|rc|uc|ud|xrc|ver|conf|quit)(?:_\w+)?):\s*$")
_VALUE = re.compile(
    r"\s*(bw|send_bw|recv_bw|latency|msg_rate|send_msg_rate|recv_msg_rate)\s+=\s+"
    r"(\d[\d.,]*)\s+(\S+)(?:\s{2,}\S.*|\s+[(#<].*)?\s*$"
)
_SIZE = re.compile(
    r"\s*msg_size\s+=\s+(\d{1,12}(?:\.\d{1,3})?)\s+(bytes|KiB|MiB|GiB|KB|MB)(?: \(.*\))?\s*$"
)
_SETTING = (
    r"(?:msg_mt_bw|loc_|rem_|(?:send|recv)_(?!bw|msg_rate)|time|timeout|protocol|sock_buf|cpus_|"
    r"port|access_recv|poll_mode|mtu_size|id|rd_atomic|rate|sl|use_cm)"
)
_KNOWN = re.compile(rf"\s*(?:{_SETTING}|msg_rate)\w*\s+=\s")
_FAILED = re.compile(
    r"\s*(failed to (?:connect|receive|find|create|open|modify|bind).*|.*: protocol error.*)"
)
POWERS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
BINARY = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6}
TIMES = {"ns": 1e9, "us": 1e6, "ms": 1e3, "sec": 1.0}
_BYTES = re.compile(r"([KMGT]?)(bytes|B|bits|b)/sec")
_MESSAGES = re.compile(r"([KMGT]?)/sec")


class Qperf(RunParser):
    """qperf: bandwidths in units of 1000, one-way latencies."""

    marks = ("_bw:", "_lat:", "_bw :", "msg_rate")
    definitions = DEFINITIONS

    def _reset(self) -> None:
        self._params: dict[str, Scalar] = {}
        self._size = 0
        self._waiting: list[tuple[Definition, float, str]] = []

    def take(self, line: str, lineno: int) -> bool:
        if test := _TEST.match(line):
            self._flush()
            self._open_table(test[1], lineno)  # it may be repeated, with another size
            self._params, self._size = {"test": test[1]}, 0
        elif self._run is None or not self._params:
            return False
        elif value := _VALUE.match(line):
            return self._figure(value)
        elif size := _SIZE.match(line):
            self._size = round(float(size[1]) * BINARY[size[2]])
        elif failure := _FAILED.match(line):
            self._run.fail(f"{self._params['test']}: {failure[1]}")
        else:  # the load of the processor, a setting, ...
            return _KNOWN.match(line) is not None
        return True

    def _figure(self, match: re.Match[str]) -> bool:
        value = number(match[2].replace(",", ""))
        name = match[1]
        is_time, test = name == "latency", str(self._params["test"])
        scale = _scale(name, match[3], test)
        if test.endswith("_bw" if is_time else "_lat") and "rate" not in name:
            self._flush()
            self._params = {}  # of another test, whose name is missing
        if value is None or scale is None or not self._params:
            return False
        self._waiting.append((scale[0], value * scale[1] / scale[2], "" if is_time else name))
        return True

    def _flush(self) -> None:
        """Add the figures of a test; the size of its messages may follow them."""
        for definition, value, name in self._waiting:
            side = {"side": name.partition("_")[0]} if name.startswith(("send", "recv")) else {}
            if self._run is not None:
                self._run.add(definition, value, {**self._params, **side}, size=self._size)
        self._waiting = []

    def _end(self) -> None:
        self._flush()
        super()._end()


def _rate(test: str) -> Definition:
    """Return the metric of a bandwidth, by what carries the bytes of its test."""
    kind = test.partition("_")[0]
    if kind in ("tcp", "sctp"):
        return BANDWIDTH
    if kind not in ("rc", "uc", "ud", "xrc", "ver"):
        return OTHER
    return BOTH if "_bi_" in test else RDMA


def _scale(name: str, unit: str, test: str) -> tuple[Definition, float, float] | None:
    """Return the metric of a figure, by what to multiply it, and by what to divide it."""
    byte_unit, messages = _BYTES.fullmatch(unit), _MESSAGES.fullmatch(unit)
    if name == "latency":
        return (LATENCY, 1.0, TIMES[unit]) if unit in TIMES else None
    if name.endswith("bw") and byte_unit:
        bits = 8 if byte_unit[2].startswith("b") and byte_unit[2] != "bytes" else 1
        return _rate(test), POWERS[byte_unit[1]], bits
    return (RATE, POWERS[messages[1]], 1.0) if name.endswith("msg_rate") and messages else None
