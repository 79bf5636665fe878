"""The answer of a gate: whether hosts are proven, before a job starts on them."""

from typing import Literal

from cluster.core.model.network.fleet import FleetFinding, NextStep, Part
from cluster.core.model.value import Value

GateWord = Literal["PROVEN", "BAD", "UNDECIDED"]
GateCode = Literal[
    "proven", "faults", "below_limit", "slow_alone",
    # undecided
    "unconfirmed", "silent_flows", "unproven", "few_rounds", "no_limit", "processor", "no_values",
    "not_ready", "in_use", "too_few", "no_time", "no_network",
]  # fmt: skip

FEWEST = 2  # hosts: a pair
STATUS: dict[GateWord, int] = {"PROVEN": 0, "BAD": 1, "UNDECIDED": 75}
"""The exit status of each verdict; 75 is EX_TEMPFAIL of sysexits(3)."""


class Gate(Value, frozen=True, kw_only=True):
    """The answer of a gate, decided within a time."""

    verdict: GateWord
    code: GateCode  # why: docs/explanation/gate.md explains each
    answer: str = ""  # in one line
    hosts: int = 0
    proven: int = 0  # how many hosts reached the usual rate, both ways
    unproven: tuple[int, ...] = ()  # the numbers of the others
    skipped: tuple[int, ...] = ()  # the numbers of those on which a job runs
    reason: str = ""  # what was in the way of tests, in words
    bad: tuple[FleetFinding, ...] = ()  # what is at fault, each seen again at another time
    suspected: tuple[FleetFinding, ...] = ()  # what is not confirmed, or not judged
    doubtful: tuple[Part, ...] = ()  # hosts and pairs that were low, which may be by chance
    reference: float | None = None  # what most hosts reach, in bytes per second
    limit: float | None = None  # what the link of a host allows, in bytes per second, if known
    share: float = 0.0  # of the limit, which healthy hosts reach
    false_alarms: float = 0.0  # the share of healthy fleets that are called BAD, at most
    within: float = 0.0  # the seconds that it had
    took: float = 0.0  # the seconds that it took
    needs: float = 0.0  # seconds that would probably decide it; 0 if time alone would not
    step: NextStep | None = None  # what to type next
    run: str = ""  # the folder of its tests; empty if there were none
    simulated: bool = False
