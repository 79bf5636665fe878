"""What a receiver makes of a connection when it loses the processor; the time is simulated."""

import socket
import struct
from collections.abc import Sequence
from typing import cast

import pytest

from cluster.measure.pairs import host_agent, messages
from cluster.measure.pairs.host_agent import TransferError, UntriedError

RATE = 5e6  # bytes per second that arrive, for SECONDS
SECONDS = 0.3
SEGMENT = 1 << 14
LIMIT = 2.0  # seconds, after which nothing more is expected
SLICE = 1e-5  # seconds that each look takes


class Link:
    """A connection on which the kernel is asked late, or answers late, at one read.

    `holes` are times when a segment is lost, and when what came meanwhile is there with it.
    """

    def __init__(
        self,
        read: int,
        before: float = 0.0,
        after: float = 0.0,
        holes: Sequence[tuple[float, float]] = (),
    ) -> None:
        self.now = 0.0
        self._stalls = {read: (before, after)}
        self._holes = holes
        self._reads = self._received = 0
        self._timeout = LIMIT

    def clock(self) -> float:
        return self.now

    def recv_into(self, buffer: bytearray) -> int:
        """Return what arrived, and wait for a segment if there is nothing; 0 at the end."""
        deadline = self.now + self._timeout
        backlog = self._arrived() - self._received
        while backlog < min(SEGMENT, self._total - self._received):
            self.now += SLICE
            if self.now >= deadline:
                raise TimeoutError
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

    def gettimeout(self) -> float:
        return self._timeout

    def settimeout(self, seconds: float) -> None:
        self._timeout = seconds

    @property
    def _total(self) -> int:
        return int(RATE * SECONDS)

    def _arrived(self) -> int:
        begins = (begin for begin, end in self._holes if begin <= self.now < end)
        return int(RATE * min(self.now, SECONDS, *begins))


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


@pytest.mark.parametrize(
    ("holes", "share"),
    [
        ([(0.1, 0.2)], 1.0),  # all of it came, although half of it at once
        ([(0.05, 0.15)], 1.0),  # as fast afterwards as its link
        ([(0.05, 0.25), (0.251, 0.6)], (0.251 - 0.05) / 0.24),
        ([(0.1, 0.6)], (0.1 - 0.06) / 0.24),  # and nothing until the end
    ],
)
def test_what_waited_for_a_lost_segment_took_all_the_time_until_then(
    holes: list[tuple[float, float]], share: float
) -> None:
    assert rate_of(Link(0, holes=holes)) == pytest.approx(share * RATE, abs=0.03 * RATE)


@pytest.mark.parametrize(("end", "share"), [(2.9, 1.0), (2.8, 1.0), (2.5, 1.9 / 2.4)])
def test_more_silence_than_a_timeout_of_tcp_counts_in_a_long_test(end: float, share: float) -> None:
    marks = [(hundredth / 100, int(RATE * min(hundredth / 100, end))) for hundredth in range(301)]
    assert host_agent._rate(marks, 3.0) == pytest.approx(share * RATE, rel=0.01)


@pytest.mark.parametrize("begin", [SEGMENT / RATE, 0.1, 0.18, 0.23])
def test_a_connection_that_stays_silent_is_given_up(begin: float) -> None:
    """However much came before it died."""
    link = Link(0, holes=[(begin, 9.0)])
    with pytest.raises(TransferError, match="nothing arrived"):
        rate_of(link)
    assert LIMIT < link.now < LIMIT + 2 * SECONDS


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
