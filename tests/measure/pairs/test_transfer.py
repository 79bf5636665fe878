"""What a receiver makes of a connection when it loses the processor; the time is simulated."""

import socket
import struct
from typing import cast

import pytest

from cluster.measure.pairs import host_agent, messages
from cluster.measure.pairs.host_agent import UntriedError

RATE = 5e6  # bytes per second that arrive, for SECONDS
SECONDS = 0.3
SEGMENT = 1 << 16
SLICE = 1e-5  # seconds that each look takes


class Link:
    """A connection on which the kernel is asked late, or answers late, at one read."""

    def __init__(self, read: int, before: float = 0.0, after: float = 0.0) -> None:
        self.now = 0.0
        self._stalls = {read: (before, after)}
        self._reads = self._received = 0

    def clock(self) -> float:
        return self.now

    def recv_into(self, buffer: bytearray) -> int:
        """Return what arrived, and wait for a segment if there is nothing; 0 at the end."""
        backlog = self._arrived() - self._received
        if not backlog and self.now < SECONDS:
            self.now = min(SECONDS, (self._received + SEGMENT) / RATE)
            backlog = self._arrived() - self._received
        self._reads += 1
        count = min(len(buffer), backlog)
        self._received += count
        return count

    def getsockopt(self, *_option: int) -> bytes:
        before, after = self._stalls.get(self._reads, (0.0, 0.0))
        self.now += before
        info = bytes(host_agent.ARRIVED) + struct.pack("Q", self._arrived())
        self.now += after + SLICE
        return info

    def setsockopt(self, *_option: object) -> None:
        """Accept any option."""

    def _arrived(self) -> int:
        return int(RATE * min(self.now, SECONDS))


def rate_of(link: Link) -> float:
    return host_agent._receive_rate(cast("socket.socket", link), SECONDS, link.clock)


@pytest.mark.parametrize(
    "link",
    [
        Link(0),
        Link(1, after=0.25),
        Link(20, before=0.15),
        Link(20, after=0.15),
        Link(5, before=0.1, after=0.1),
    ],
)
def test_a_receiver_that_loses_the_processor_finds_the_rate_of_its_link(link: Link) -> None:
    assert rate_of(link) == pytest.approx(RATE, rel=0.03)


@pytest.mark.parametrize("link", [Link(1, before=0.6), Link(1, after=0.6)])
def test_what_came_while_nobody_looked_is_no_rate(link: Link) -> None:
    with pytest.raises(UntriedError, match="too little"):
        rate_of(link)


def test_a_side_that_measured_nothing_says_how_busy_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def receive(*_order: object) -> float:
        raise UntriedError("too little arrived to measure")

    def end(conditions: host_agent.Conditions) -> None:
        conditions.busy = 0.7

    monkeypatch.setattr(host_agent, "receive", receive)
    monkeypatch.setattr(host_agent.Conditions, "end", end)
    order = messages.BeginTest(
        test=0, role="receive", metric="bandwidth", seconds=0.3, limit=1, address=""
    )
    outcome = host_agent._outcome(order)

    assert (outcome.value, outcome.untried, outcome.busy) == (None, True, 0.7)
