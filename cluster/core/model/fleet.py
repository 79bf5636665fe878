"""A fleet of hosts: tests of its pairs, and what they show about hosts, links and groups."""

from __future__ import annotations

from typing import Literal

from cluster.core.model.value import Value

PairMetric = Literal["bandwidth", "latency", "allreduce"]
DeviceKind = Literal["gpus", "nics", "numa", "cores", "copies"]
FindingKind = Literal["BAD", "LINK", "GROUP", "SHARED", "UNSTABLE", "HUNG", "UNTESTED"]
FleetWord = Literal["HEALTHY", "FAULTY", "LOW", "UNDECIDED"]


class PairTest(Value, frozen=True, kw_only=True):
    """One direction of a pair, tested once.

    Args:
        round: its number; tests of a round ran at the same time.
        source: the host that sent.
        target: the host that received.
        value: bytes per second, or seconds; 0 if nothing arrived; none if it was not tried.
        reason: why there is no value.
        alone: no other test ran at the same time.
        nic: the number of the NIC on both hosts, if they have several.
        port: of the connection; with another port, it may take another path through the fabric.
        path: between two devices of a host, such as `NV18`, `SYS`, or `21`, the distance of two
            NUMA nodes; empty if it is not known.
        source_busy: the share of the time in which the sending process ran or waited for a
            processor, instead of its link; 0 if it is not known.
        target_busy: the same for the receiving process.

    """

    round: int
    source: int
    target: int
    value: float | None = None
    reason: str = ""
    alone: bool = False
    nic: int = 0
    port: int = 0
    path: str = ""
    source_busy: float = 0.0
    target_busy: float = 0.0


class Fleet(Value, frozen=True, kw_only=True):
    """The hosts that were tested.

    Args:
        names: of the hosts.
        groups: the number of each host's rack, leaf switch or placement group; the same number for
            all hosts if the groups are not known.
        nics: how many NICs of each host are tested one by one.
        limit: the highest value that a test can reach, in bytes per second, if it is known.
        metric: what was measured.
        directed: a test is of one direction; else of both, or of one that is not known.
        foreign: other tools measured; whether tests ran at the same time is not known.

    """

    names: tuple[str, ...]
    groups: tuple[int, ...]
    nics: int = 1
    limit: float | None = None
    metric: PairMetric = "bandwidth"
    directed: bool = True
    foreign: bool = False

    @property
    def grouped(self) -> bool:
        """Whether groups are known."""
        return len(set(self.groups)) > 1


class FleetFinding(Value, frozen=True, kw_only=True):
    """What tests show of a part of a fleet: a fault, or what is no fault of the part.

    Args:
        part: such as `host:7`, `nic:7.3`, `link:3-5`, `pair:3-5`, `group:2`, `spine:4`, `fabric`.
        name: of the host; empty for other parts.
        kind: what it is.
        direction: `tx`, `rx` or `both`; empty where there is none.
        capacity: the best value of any test through it, in bytes per second or, for latencies, in
            seconds; none if it was not measured.
        tests: how many low tests it explains.
        evidence: in words.
        confirm: the command that would confirm it.
        confirmed: what that command showed; empty until it has run.

    """

    part: str
    name: str = ""
    kind: FindingKind
    direction: Literal["", "tx", "rx", "both"] = ""
    capacity: float | None = None
    tests: int = 0
    evidence: str = ""
    confirm: str = ""
    confirmed: str = ""


class HostReplacement(Value, frozen=True, kw_only=True):
    """What became of a bad host that was to be replaced.

    Args:
        part: such as `host:7`.
        name: of the host; its new machine has the same name.
        old: the provider's id of the bad machine.
        new: the id of the machine that took its place; empty if none did.
        evidence: what tests of the new machine with good hosts showed, or why there is none.
        run: the folder of these tests.
        command: what to type, where the provider cannot replace it.

    """

    part: str
    name: str
    old: str
    new: str = ""
    evidence: str
    run: str = ""
    command: str = ""


class FleetVerdict(Value, frozen=True, kw_only=True):
    """The verdict on a fleet.

    Args:
        run: its folder.
        verdict: in one word. An oversubscribed fabric is reported, and can still be HEALTHY.
        answer: in one line.
        metric: that was measured.
        rounds: how many were run.
        tests: how many gave a value.
        failed: how many gave none.
        reference: what most hosts reach, in bytes per second or seconds; none if no test gave a
            value.
        limit: the highest value that a test can reach, if it is known.
        tolerance: a test is low if it is below the reference by more than this share of it.
        blamed: the parts that are at fault; none in a fleet that is HEALTHY or LOW.
        observations: what is no fault of the part, such as SHARED or UNTESTED.
        undecided: parts that may be at fault but need more rounds, each with a reason.
        simulated: nothing was measured: the provider is a simulator.
        groups: the number of each host's group; empty if they are not known.
        assumptions: what logs of other tools do not say, and what is assumed instead.
        missing: pairs of such logs without a value, each with its reason.
        replaced: the bad hosts for which new machines were created afterwards.

    """

    run: str = ""
    verdict: FleetWord
    rounds: int
    blamed: tuple[FleetFinding, ...] = ()
    observations: tuple[FleetFinding, ...] = ()
    undecided: tuple[str, ...] = ()
    answer: str
    metric: PairMetric = "bandwidth"
    tests: int = 0
    failed: int = 0
    reference: float | None = None
    limit: float | None = None
    tolerance: float = 0.0
    simulated: bool = False
    groups: tuple[int, ...] = ()
    assumptions: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    replaced: tuple[HostReplacement, ...] = ()

    @property
    def findings(self) -> tuple[FleetFinding, ...]:
        """What is blamed, then what is not."""
        return (*self.blamed, *self.observations)
