"""What the conductor and the agents of hosts say to one another: a JSON line each."""

from __future__ import annotations

from typing import Literal

from cluster.core.model.value import Value


class BeginTest(Value, frozen=True, kw_only=True, tag="begin"):
    """Begin one end of a test.

    Args:
        test: its number.
        role: `receive` waits for a connection, `send` makes it.
        metric: that is measured.
        seconds: of the test.
        limit: seconds after which the end gives up.
        address: of the host that receives.
        port: of it; for `send`.

    """

    test: int
    role: Literal["receive", "send"]
    metric: str
    seconds: float
    limit: float
    address: str
    port: int = 0


class EndTest(Value, frozen=True, kw_only=True, tag="end"):
    """End what is left of a test."""

    test: int


class Ready(Value, frozen=True, kw_only=True, tag="ready"):
    """The agent runs."""


class Listening(Value, frozen=True, kw_only=True, tag="listening"):
    """The end that receives waits at a port."""

    test: int
    port: int


class TestOutcome(Value, frozen=True, kw_only=True, tag="outcome"):
    """What an end of a test says of it.

    Args:
        test: its number.
        value: bytes per second or seconds; none from the end that does not measure.
        reason: why there is none; empty if all went well.

    """

    test: int
    value: float | None = None
    reason: str = ""


Order = BeginTest | EndTest
Answer = Ready | Listening | TestOutcome
