"""The messages between the coordinator and the agents of hosts: a line of JSON each."""

from typing import Literal

from msgspec import field

from cluster.core.model.value import Value

Role = Literal["receive", "send", "allreduce"]


class BeginTest(Value, frozen=True, kw_only=True, tag="begin"):
    """An order to begin one side of a test."""

    test: int
    # `receive` waits for a connection, `send` makes it; `allreduce` starts two ranks of MPI, one on
    # this host and one on that of `address`
    role: Role
    metric: str
    seconds: float
    limit: float  # seconds after which this side gives up
    address: str
    port: int = 0  # of the host that receives; for `send`
    own_address: str = ""  # of this host; for `allreduce`
    size: int = 0  # bytes; for `allreduce`
    # of the environment, with their values; for `allreduce`
    variables: tuple[tuple[str, str], ...] = ()


class EndTest(Value, frozen=True, kw_only=True, tag="end"):
    """An order to end what is left of a test."""

    test: int


class Ready(Value, frozen=True, kw_only=True, tag="ready"):
    """The agent runs."""


class Listening(Value, frozen=True, kw_only=True, tag="listening"):
    """The receiving side of a test waits for a connection at a port."""

    test: int
    port: int


class TestOutcome(Value, frozen=True, kw_only=True, tag="outcome"):
    test: int  # its number
    # bytes per second or seconds; None from the side that does not measure
    value: float | None = None
    reason: str = ""  # why the test failed; empty if it succeeded
    untried: bool = False  # it says nothing of the link if a process was short of time
    busy: float = 0.0  # the share of the time in which this side ran or waited for a processor
    # what went up on this host meanwhile, by `agent.hardware.counters.trouble`
    counters: dict[str, float] = field(default_factory=dict)


Order = BeginTest | EndTest
Answer = Ready | Listening | TestOutcome
