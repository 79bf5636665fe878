"""Why a series has its word, and what to do next: values, which `reports.words.verdict` words."""

from typing import Literal, TypeAlias

from cluster.analysis.limits.devices import Missing
from cluster.analysis.verdict.evidence import Sign
from cluster.core.model.network.fleet import FleetFinding
from cluster.core.model.results.limits import Assumption
from cluster.core.model.value import Scalar, Value

Check = Literal[
    "tcp", "tcp_link", "tcp_stalled", "latency", "messages", "rdma", "efa", "nvls", "collective",
    "gpu_to_gpu", "host_to_gpu", "gpu_memory", "memory",
]  # fmt: skip
"""What shows why a value is low, by what its bytes pass."""


class TooSmall(Value, frozen=True, tag_field="kind", tag="too_small"):
    """Its messages cannot fill what they pass; those of `least` bytes can."""

    least: int


class AboveAssumption(Value, frozen=True, tag_field="kind", tag="above_assumption"):
    """It is above a limit that holds only under an assumption."""

    assumption: Assumption


class NoLimit(Value, frozen=True, tag_field="kind", tag="no_limit"):
    """There is no limit, because something of the hardware, or of the test, is not known."""

    missing: Missing
    hardware: str = ""


class NoLimitOfLatency(Value, frozen=True, tag_field="kind", tag="no_limit_of_latency"):
    """Nothing limits a latency; what others measured is all there is."""


class NoLimitOfProgram(Value, frozen=True, tag_field="kind", tag="no_limit_of_program"):
    """Nothing is known of how long a program of the user has to take."""


class RateAsRequested(Value, frozen=True, tag_field="kind", tag="rate_as_requested"):
    """UDP is sent as fast as it was asked for, whatever the network could take."""


class Low(Value, frozen=True, tag_field="kind", tag="low"):
    """It is below what is usual, or what others published."""

    check: Check | None
    share: float | None = None
    usual: float | None = None
    best_value_of_usual: float | None = None  # below 1, even its best value is low


class Collapse(Value, frozen=True, tag_field="kind", tag="collapse"):
    """It is far below the same test at smaller messages."""

    check: Check | None
    at: Scalar = 0
    best: float = 0.0  # share of the limit; 0 if none is known
    best_value: float = 0.0
    best_at: Scalar = 0
    best_value_of_usual: float | None = None  # below 1, even its best value is low


class BusyHost(Value, frozen=True, tag_field="kind", tag="busy_host"):
    """It may be `word` only because others used the processors of its host."""

    word: str


Reason: TypeAlias = (
    TooSmall
    | AboveAssumption
    | NoLimit
    | NoLimitOfLatency
    | NoLimitOfProgram
    | RateAsRequested
    | Low
    | Collapse
    | BusyHost
)

Purpose = Literal[
    "show",  # logs, a report, a check: the command says it
    "measure",
    "again",  # when the hosts are quiet
    "name_network",
    "compare_settings",
    "memory_copy",
    "confirm",  # a finding
    "find_cause",  # of a low value
    "settle_assumption",
    "larger_messages",
    "name_missing",
    "compare_runs",
    "read_log",  # which has no figures
]


class Advice(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What to do next."""

    purpose: Purpose
    command: tuple[str, ...] = ()  # its words, unquoted; none if it is not a command of ours
    reason: Reason | None = None  # that it clears up, of a series
    sign: Sign | None = None  # of a problem, which the step confirms
    fleet: FleetFinding | None = None  # what confirms the first finding of a check
