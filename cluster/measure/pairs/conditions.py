"""What one side of a test met besides its link: other work, errors, losses, small buffers."""

import socket
import struct
import time
from pathlib import Path

from cluster.agent.counters import queue_bytes, queue_shares, read_counters, trouble

SCHEDULED = Path("/proc/self/schedstat")  # ns that it ran, ns that it waited in a queue, and slices
NANO = 1e9
TCP_INFO = 192  # bytes of struct tcp_info, up to Linux 4.10's limits (linux/tcp.h)
QUEUED = 2.0  # times the shortest round trip: from there on, a queue fills, and buffers are enough


class Conditions:
    """What one side of a test met, from the beginning of its transfer to the end.

    A side that waits for its link sleeps. One that is short of processor time runs or waits for a
    processor nearly all the time, and its rate says nothing about the link.
    """

    def __init__(self) -> None:
        self.busy = 0.0  # the share of the time in which it ran or waited for a processor
        self.counters: dict[str, float] = {}  # what went up, by `agent.counters.trouble`
        self.begin()

    def begin(self) -> None:
        self._before, self._began = _demand_seconds(), time.perf_counter()
        self._counters, self._queues = read_counters(), queue_bytes()

    def end(self, link: socket.socket | None = None) -> None:
        """End it, with what the kernel says of a connection; it ends once."""
        if self.counters:
            return
        after, took = _demand_seconds(), time.perf_counter() - self._began
        if self._before is not None and after is not None and took > 0:
            self.busy = min(1.0, (after - self._before) / took)
        losses = connection_trouble(link) if link else {}
        shares = losses | queue_shares(self._queues, queue_bytes())
        self.counters = shares | trouble(self._counters, read_counters())


def connection_trouble(link: socket.socket) -> dict[str, float]:
    """Return shares: of segments that were sent again, of time that buffers limited the sender."""
    data = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO)
    if len(data) < TCP_INFO:
        return {}
    (trip,) = struct.unpack_from("I", data, 68)
    (again,) = struct.unpack_from("I", data, 100)
    shortest, segments = struct.unpack_from("I4xI", data, 148)
    busy, by_receiver, by_sender = struct.unpack_from("3Q", data, 168)
    is_queued = trip > QUEUED * max(shortest, 1)
    shares = {
        "tcp.retransmitted": again / max(segments, 1),
        "tcp.receive_buffer": 0 if is_queued else by_receiver / max(busy, 1),
        "tcp.send_buffer": 0 if is_queued else by_sender / max(busy, 1),
    }
    return {name: round(value, 4) for name, value in shares.items() if value > 0}


def _demand_seconds() -> float | None:
    """Return the seconds in which this process ran or waited for a processor."""
    try:
        ran, waited = SCHEDULED.read_text().split()[:2]
        return (int(ran) + int(waited)) / NANO
    except (OSError, ValueError):
        return None
