"""A fleet of hosts: tests of its pairs, and what they show about hosts, links and groups."""

import shlex
from typing import Literal

from cluster.core.model.value import Value

PairMetric = Literal["bandwidth", "latency", "allreduce"]
DeviceKind = str
"""A kind of device within a host, such as `gpus`: reports/words/devices.py lists them."""
FindingKind = Literal["BAD", "LINK", "GROUP", "SHARED", "UNSTABLE", "HUNG", "UNTESTED"]
FleetWord = Literal["HEALTHY", "FAULTY", "LOW", "UNDECIDED"]
Way = Literal["", "tx", "rx", "both"]
PartKind = Literal[
    "host", "nic", "pair", "group", "link", "corelink", "spine", "fabric", "routes", "pairs",
    "device",
]  # fmt: skip
ReasonCode = Literal[
    # of findings about hosts, links and groups
    "lost", "untried", "busy", "silent", "slow", "low_pair", "varying", "slow_group",
    "slow_group_at_once", "good_among_themselves", "slow_everywhere", "slow_link",
    "shared", "slow_at_once", "slow_between_groups",
    "low_pairs",
    # of findings about devices
    "slow_device", "slow_device_alone", "slow_device_pair",
    # of suspects
    "chance", "same_tests", "in_no_group", "far", "one_test", "unknown_path", "few_pairs",
    "few_to_compare", "silent_flows",
    # of verdicts
    "faults", "alike", "below_limit", "slow_alone", "no_tests", "no_values", "one_pair", "two_ends",
    "few_rounds", "few_partners", "unexplained", "untested", "few_classes", "unknown_paths",
    "slow_devices", "no_pairs", "several_kinds", "not_judged", "one_machine",
]  # fmt: skip


SILENT = "nothing arrived within the limit"
HOLE = "small messages arrive, large ones do not: an MTU hole?"
SHORT = "a processor was short of time"
UNMEASURED = "it was not measured"
NO_FIGURE = "its value is {}"
SAME_ADDRESS = "refused: another host has the same address"
"""Why a test has no value, as a rank writes it."""
AssumptionCode = Literal[
    # of tests of pairs of hosts
    "both_ways", "row_sends", "alone_or_at_once", "no_limit",
    # of devices of a host
    "same_numbers", "slower_direction", "no_gpu_paths", "inferred_links", "no_nic_paths",
    "nearest_gpu", "other_end", "unknown_nics", "no_node_paths", "memory_bound", "cores",
    "no_distances", "fastest_copy", "one_kind",
]  # fmt: skip


class NextStep(Value, frozen=True, kw_only=True):
    """A command of `cluster` to type next."""

    command: str  # such as `check`
    arguments: tuple[str, ...] = ()  # the words after it

    @property
    def line(self) -> str:
        """The line to type, such as `cluster check big --pairs 7-1,7-2`."""
        return shlex.join(("cluster", self.command, *self.arguments))


class PairTest(Value, frozen=True, kw_only=True):
    """One direction of a pair, tested once."""

    round: int  # its number; tests of a round ran at the same time
    source: int  # the host that sent
    target: int  # the host that received
    # bytes per second, or seconds; 0 if nothing arrived; none if it was not tried
    value: float | None = None
    reason: str = ""  # why there is no value
    lost: int = -1  # the number of the host that did not answer any more, if that is why; else -1
    alone: bool = False  # no other test ran at the same time
    nic: int = 0  # the number of the NIC on both hosts, if they have several
    # of the connection; with another port, it may take another path through the fabric
    port: int = 0
    # between two devices of a host, such as `NV18`, `SYS`, or `21`, the distance of two NUMA nodes;
    # empty if it is not known
    path: str = ""
    # the share of the time in which the sending process ran or waited for a processor, instead of
    # its link; 0 if it is not known
    source_busy: float = 0.0
    target_busy: float = 0.0  # the same for the receiving process
    # what went up on the sending host meanwhile: shares as `tcp.` and `cpu.`, counts of others
    source_counters: dict[str, float] = {}
    target_counters: dict[str, float] = {}  # the same on the receiving host

    @property
    def why(self) -> str:
        """Why there is no value, with the host that was lost."""
        return f"host:{self.lost} is lost: {self.reason}" if self.lost >= 0 else self.reason


class Fleet(Value, frozen=True, kw_only=True):
    """The hosts that were tested."""

    names: tuple[str, ...]  # of the hosts
    # the number of each host's rack, leaf switch or placement group; the same number for all hosts
    # if the groups are not known
    groups: tuple[int, ...]
    nics: int = 1  # how many NICs of each host are tested one by one
    # the highest value that a test can reach, in bytes per second, if it is known
    limit: float | None = None
    metric: PairMetric = "bandwidth"  # what was measured
    directed: bool = True  # a test is of one direction; else of both, or of one that is not known
    foreign: bool = False  # other tools measured; whether tests ran at the same time is not known
    devices: DeviceKind = ""  # what the hosts are instead, if they are devices of one kind

    @property
    def has_groups(self) -> bool:
        return len(set(self.groups)) > 1

    def members(self, number: int) -> tuple[int, ...]:
        """Return the hosts of a group."""
        return tuple(host for host, group in enumerate(self.groups) if group == number)


class Part(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a fleet; what is -1 or empty does not belong to it."""

    kind: PartKind  # what it is; the fabric, its routes, and pairs as a whole have no number
    host: int = -1  # the number of the host, that of a NIC, or the first of a pair
    peer: int = -1  # the other host of a pair
    nic: int = -1  # the number of a NIC
    number: int = -1  # of a group or spine switch, or of the lower switch of a link
    upper: int = -1  # the switch above, of a link
    device: str = ""  # the name of a GPU, NIC, NUMA node or core, such as `GPU3`
    other: str = ""  # the other device of a pair


class ClassShare(Value, frozen=True, kw_only=True):
    """What devices of one class of paths reach."""

    path: str  # the class, such as `NV18`; empty if it is not known
    rate: float  # at best, in bytes per second; of latencies, the inverse of seconds
    share: float = 0.0  # of what others of the class do; 0 if there are too few to say


class Reason(Value, frozen=True, kw_only=True, omit_defaults=True):
    """Why a part is named, or a verdict given: a stable code, and the figures behind it."""

    code: ReasonCode  # what was seen; docs/reference/check-codes.md explains each
    share: float = 0.0  # of what most others reach
    low: int = 0  # tests, partners, pairs or parts that are low
    of: int = 0  # how many of them there are
    failed: int = 0  # tests in which nothing arrived
    message: str = ""  # the most frequent error of tests, as a tool reported it
    best: float = 0.0  # of tests that vary over time, the best as a share of the usual value
    worst: float = 0.0  # of these, what is reached at times, as a share of the best
    drifts: bool = False  # they become worse from round to round
    usual: float = 0.0  # what to compare with, in bytes per second or seconds
    hosts: tuple[int, ...] = ()  # that are meant
    pairs: tuple[tuple[int, int], ...] = ()  # that are meant, by the numbers of their hosts
    classes: tuple[ClassShare, ...] = ()  # what devices reach, class by class
    nic: int = -1  # of each host that is meant, if hosts have several
    target: bool = False  # the receiving end is meant


class CounterChange(Value, frozen=True, kw_only=True):
    """A counter that went up in the low tests of a part, and not in good tests."""

    counter: str  # such as `tcp.retransmitted`, `cpu.steal`, `eth0.rx_errors`
    own: float  # of a low test, the median: a share of `tcp.` and `cpu.`, else a count
    usual: float  # what good tests do not exceed


class Suspect(Value, frozen=True, kw_only=True):
    """A part that may be at fault, and why that is not certain."""

    place: Part
    direction: Way = ""
    # the best value of its tests, in bytes per second or seconds, if that matters
    capacity: float | None = None
    reason: Reason
    # other parts, with their directions, of which exactly the same tests are low
    twins: tuple[tuple[Part, Way], ...] = ()
    counters: tuple[CounterChange, ...] = ()  # as those of a finding


def setting_name(path: str, interface: str) -> str:
    """Name a setting of a host or of one of its interfaces, such as `mtu of eth0`."""
    return f"{path.rpartition('.')[2]} of {interface}" if interface else path


class Drift(Value, frozen=True, kw_only=True):
    """A setting in which some hosts differ from others."""

    setting: str  # such as `mtu of eth0`, `kernel`, `tuning.governor`; `answers`: was the host read
    path: str = ""  # of the fact, such as `interfaces.mtu`, `tuning.governor`; empty of `answers`
    interface: str = ""  # such as `eth0`, if it is a setting of one
    usual: str  # its most frequent value, of which `count` and `of` say whether most hosts have it
    count: int  # how many have that
    of: int  # how many report it
    hosts: tuple[int, ...]  # the numbers of those that differ
    values: tuple[str, ...]  # what each of them has
    slows: bool = False  # it can make a link, or its tests, slow


class FleetFinding(Value, frozen=True, kw_only=True):
    """What tests show of a part of a fleet: a fault, or what is no fault of the part."""

    # such as `host:7`, `nic:7.3`, `link:3-5`, `pair:3-5`, `group:2`, `spine:4`, `fabric`
    part: str = ""
    name: str = ""  # of the host; empty for other parts
    kind: FindingKind  # what it is
    direction: Way = ""  # `tx`, `rx` or `both`; empty where there is none
    # the best value of any test through it, in bytes per second or, for latencies, in seconds; none
    # if it was not measured
    capacity: float | None = None
    tests: int = 0  # how many low tests it explains
    evidence: str = ""  # the reason in words
    confirm: str = ""  # the command that would confirm it
    confirmed: str = ""  # what that command showed; empty until it has run
    holds: bool = False  # whether it showed the fault in each of its tests
    place: Part  # the part, to compute with
    reason: Reason  # the code and the figures of the evidence
    partners: tuple[int, ...] = ()  # good hosts to test it with again
    step: NextStep | None = None  # the command that does
    # settings that only the hosts of the part have, and that can make it slow
    causes: tuple[Drift, ...] = ()
    counters: tuple[CounterChange, ...] = ()  # what went up in its low tests only


ReplacementCode = Literal["", "replaced", "new_is_bad", "irreplaceable", "cordoned"]


class NewHost(Value, frozen=True, kw_only=True):
    """What tests of a new machine with good hosts showed."""

    good: bool
    tests: int
    partners: tuple[int, ...]  # the hosts that it was tested with
    sent: float | None = None  # as a share of what most hosts reach; none if nothing arrived
    received: float | None = None  # the same
    message: str = ""  # why nothing arrived, as a test reported it


class HostReplacement(Value, frozen=True, kw_only=True):
    """What became of a bad host that was to be replaced."""

    part: str  # such as `host:7`
    name: str  # of the host; its new machine has the same name
    old: str  # the provider's id of the bad machine
    new: str = ""  # the id of the machine that took its place; empty if none did
    reason: ReplacementCode = ""  # what became of it; empty in a verdict of an older version
    evidence: str = ""  # what tests of the new machine showed, or why there is none, in words
    tests: NewHost | None = None  # the figures of these tests
    run: str = ""  # their folder
    command: str = ""  # what to type, where the provider cannot replace it
    node: str = ""  # the node that was cordoned


class FleetVerdict(Value, frozen=True, kw_only=True):
    """The verdict on a fleet."""

    run: str = ""  # its folder
    # in one word. An oversubscribed fabric is reported, and can still be HEALTHY.
    verdict: FleetWord
    rounds: int  # how many were run
    # the parts that are at fault; none in a fleet that is HEALTHY or LOW
    blamed: tuple[FleetFinding, ...] = ()
    # what is no fault of the part, such as SHARED or UNTESTED
    observations: tuple[FleetFinding, ...] = ()
    # parts that may be at fault but need more rounds, each with a reason in words
    undecided: tuple[str, ...] = ()
    answer: str = ""  # in one line
    metric: PairMetric = "bandwidth"  # that was measured
    tests: int = 0  # how many gave a value
    failed: int = 0  # how many gave none
    limited: int = 0  # of how many a processor limited the value, and not the link
    # the numbers of hosts that reached the usual rate in no test, of one direction at least
    unproven: tuple[int, ...] = ()
    # what most hosts reach, in bytes per second or seconds; none if no test gave a value
    reference: float | None = None
    best: float = 0.0  # what the fastest test reached, in bytes per second
    limit: float | None = None  # the highest value that a test can reach, if it is known
    # a test is low if it is below the reference by more than this share of it
    tolerance: float = 0.0
    simulated: bool = False  # nothing was measured: the provider is a simulator
    groups: tuple[int, ...] = ()  # the number of each host's group; empty if they are not known
    # what logs of other tools do not say, and what is assumed instead
    assumptions: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # pairs of such logs without a value, each with its reason
    # the bad hosts for which new machines were created afterwards
    replaced: tuple[HostReplacement, ...] = ()
    reason: Reason  # the code and the figures of the answer
    suspects: tuple[Suspect, ...] = ()  # the parts that are undecided, to compute with

    @property
    def findings(self) -> tuple[FleetFinding, ...]:
        return (*self.blamed, *self.observations)


class PairAssumption(Value, frozen=True):
    """What logs of pairs do not say, and what is assumed instead."""

    code: AssumptionCode
    names: tuple[str, ...] = ()  # of the devices that are meant


NoValueCode = Literal[
    "failed", "no_metric", "empty_cell", "negative", "absurd", "no_copy", "no_log"
]


class NoValue(Value, frozen=True, kw_only=True):
    """Why a pair has no value that counts."""

    code: NoValueCode
    text: str = ""  # of the log, if the test failed
    line: int = 0  # of an empty cell, from 1
    metric: PairMetric = "bandwidth"
    size: int = 0  # of the messages, in bytes; 0 if the test has none
    value: float = 0.0  # that is not believed
    times: float = 0.0  # the median of all pairs; 0 if that is 0


class LoggedPair(Value, frozen=True, kw_only=True):
    """A value of a pair of hosts in a log."""

    hosts: tuple[str, str]  # the two; if the direction is known, the first one sends
    value: float | None  # bytes per second, or seconds; none if the log has none
    reason: NoValue | None = None  # why there is no value
    log: str = ""  # the file
    # between two devices of a host, such as `NV18`, `SYS`, or `21`, the distance of two NUMA nodes;
    # empty if it is not known
    path: str = ""


class PairLogs(Value, frozen=True, kw_only=True):
    """Comparable values of pairs of hosts."""

    title: str = ""  # the test, in words; empty if all tests failed
    metric: PairMetric  # that was measured
    # the first host of each pair sends to the second; else a value is of both directions, or the
    # direction is not known
    directed: bool = False
    pairs: tuple[LoggedPair, ...]  # the values, in the order of the logs
    assumptions: tuple[PairAssumption, ...] = ()
    left_out: tuple[str, ...] = ()  # what is not used, each with the reason
    others: dict[str, int] = {}  # how many results there are of each other test, which is not used
    devices: DeviceKind = ""  # what the pairs are, if they are devices of one host, and not hosts
    sparse: bool = False  # two devices without a log are no pair
