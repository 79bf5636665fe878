"""A fleet of hosts: its tests of pairs, and what they say of hosts, links and groups."""

from __future__ import annotations

from typing import Literal

from cluster.core.model.value import Value

PairMetric = Literal["bandwidth", "latency", "allreduce"]
FaultVerdict = Literal["BAD", "LINK", "GROUP", "SHARED", "UNSTABLE", "HUNG", "UNTESTED"]
FleetWord = Literal["HEALTHY", "FAULTY", "LOW", "UNDECIDED"]


class PairTest(Value, frozen=True, kw_only=True):
    """One direction of a pair, tested once.

    Args:
        round: its number; tests of a round ran at the same time.
        source: the host that sent.
        target: the host that received.
        value: bytes per second, or seconds; 0 if nothing came; none if it was not tried.
        reason: why there is no value.
        alone: no other test ran at the same time.
        nic: of both hosts, where there are several.
        port: of the connection: another one may take another way through the fabric.

    """

    round: int
    source: int
    target: int
    value: float | None = None
    reason: str = ""
    alone: bool = False
    nic: int = 0
    port: int = 0


class Fleet(Value, frozen=True, kw_only=True):
    """The hosts that were tested.

    Args:
        names: of the hosts.
        groups: the number of each host's rack, leaf switch or placement group; all the same where
            nobody knows.
        nics: of each host that are tested one by one.
        limit: the best that a test could give, in bytes per second, where that is known.
        metric: what was measured.

    """

    names: tuple[str, ...]
    groups: tuple[int, ...]
    nics: int = 1
    limit: float | None = None
    metric: PairMetric = "bandwidth"

    @property
    def grouped(self) -> bool:
        """Whether groups are known."""
        return len(set(self.groups)) > 1


class Blamed(Value, frozen=True, kw_only=True):
    """A part of a fleet that something is wrong with.

    Args:
        part: such as `host:7`, `nic:7.3`, `link:3-5`, `pair:3-5`, `group:2`, `spine:4`, `fabric`.
        name: of the host; empty for other parts.
        kind: of trouble.
        direction: `tx`, `rx` or `both`; empty where there is none.
        capacity: the most that it ever gave, in bytes per second (of a latency: the least seconds);
            none where it was not measured.
        tests: that it explains.
        evidence: in words.
        confirm: the command that would confirm it.
        confirmed: what that run said; empty while it was not run.

    """

    part: str
    name: str = ""
    kind: FaultVerdict
    direction: Literal["", "tx", "rx", "both"] = ""
    capacity: float | None = None
    tests: int = 0
    evidence: str = ""
    confirm: str = ""
    confirmed: str = ""


class FleetVerdict(Value, frozen=True, kw_only=True):
    """What the tests of a fleet say.

    Args:
        run: its folder.
        verdict: in a word. A fabric that is oversubscribed is a finding, and HEALTHY all the same.
        answer: in a line.
        metric: that was measured.
        rounds: that were run.
        tests: that gave a value.
        failed: tests that gave none.
        reference: what most hosts reach, in bytes per second or seconds; none if nothing came.
        limit: the best that there could be, where that is known.
        tolerance: share below the reference from which a test is low.
        blamed: the parts.
        undecided: parts for which there were not enough rounds, each with a reason.
        simulated: nothing was measured: the provider is a simulator.

    """

    run: str = ""
    verdict: FleetWord
    rounds: int
    blamed: tuple[Blamed, ...] = ()
    undecided: tuple[str, ...] = ()
    answer: str
    metric: PairMetric = "bandwidth"
    tests: int = 0
    failed: int = 0
    reference: float | None = None
    limit: float | None = None
    tolerance: float = 0.0
    simulated: bool = False
