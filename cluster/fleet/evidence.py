"""What confirms a bad part: tests again; and what explains it: counters, settings of its own."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median

import msgspec
import numpy as np

from cluster.analysis.statistics.factors import IDENTITY, NONE, flat
from cluster.core.model.hosts import Facts
from cluster.core.model.network.fleet import (
    CounterChange,
    Drift,
    FleetFinding,
    FleetVerdict,
    PairTest,
    Part,
    Suspect,
    Way,
    setting_name,
)
from cluster.core.model.value import Value
from cluster.core.text.units import format_rate, parse_rate

Readings = Sequence[Mapping[str, float]]  # what went up in each test
FEWEST = 3  # tests of each kind that can be compared
FEWEST_AGAIN = 2  # tests alone that confirm a fault
OFTEN, TIMES = 0.9, 3.0  # the share of good tests that stay below, and how often more is unusual
LEAST = {"tcp.retransmitted": 0.002, "tcp.": 0.2, "cpu.": 0.05, "queue.": 0.5, "": 1.0}
STEADY = 0.1  # by which the middle half of low tests may differ, if a rate limits them
SHAPED = 0.02  # segments that a queue in front of a slow link loses, as senders find its rate
EXACT, POLICED = 0.02, 0.1  # more of them, where low tests differ less than losses would let them
ALIKE, MANY = 0.005, 1 / 3  # more than this share of low tests reach one rate if a link sets it
LOSSES = "tcp.retransmitted"
RATE = "rate"
"""The name of no counter: low tests that are equal, and met nothing that would slow them."""
UNLIKE = {"physical_cores", "gpu_slots", "variables"}  # alike hosts number and set these otherwise
MAY_LACK = ("libraries.", "programs.", "gpu_driver", "interfaces.mtu")
"""How the paths begin of settings that a host may be without; others are unread if it has none."""
LACKING = "none"
GIB = 1 << 30
SLOWING = ("interfaces.", "usable_cores", "cgroup_cpus", "tuning.governor", "tuning.sysctls.net.")
"""How the paths of settings begin that can make a link or its tests slow."""
FEWER = ("interfaces.mtu", "interfaces.speed", "usable_cores", "cgroup_cpus")  # smaller values can


def blamed_hosts(verdict: FleetVerdict, finding: FleetFinding | Suspect) -> set[int]:
    """Return the hosts of a part: a host, the first of a pair, or all of a group."""
    if finding.place.kind != "group":
        return {finding.place.host}
    number = finding.place.number
    return set(finding.reason.hosts or (h for h, g in enumerate(verdict.groups) if g == number))


def passes(test: PairTest, hosts: set[int], direction: Way) -> bool:
    """Tell whether a test passes between these hosts and others in a direction that is blamed."""
    sends, receives = test.source in hosts, test.target in hosts
    return sends != receives and direction in ("tx" if sends else "rx", "both", "")


def is_low(verdict: FleetVerdict, test: PairTest) -> bool:
    """Tell whether a test that was tried has no value, or one that is not usual."""
    usual = verdict.reference or 0.0
    if not test.value:
        return True
    share = test.value / usual if verdict.metric == "bandwidth" else usual / test.value
    return share < 1 - verdict.tolerance


def counter_changes(
    verdict: FleetVerdict, tests: Sequence[PairTest]
) -> dict[int, tuple[CounterChange, ...]]:
    """Return what went up in the low tests of each finding, then of each suspect, by its place."""
    tests = [test for test in tests if test.value is not None]
    # only hosts of ours say how busy they were, and read counters, which may all be 0
    was_read = any(t.source_busy or t.source_counters or t.target_counters for t in tests)
    if not verdict.reference or not was_read:
        return {}
    low, usual = _low_and_usual(verdict, tests)
    good = [reading for test in usual for reading in _readings(test)]
    by_place: dict[int, tuple[CounterChange, ...]] = {}
    parts: list[FleetFinding | Suspect] = [*verdict.findings, *verdict.suspects]
    for place, finding in enumerate(parts):
        hosts, low_tests = _blamed_tests(verdict, finding, low)
        readings = [_reading(test, hosts) for test in low_tests]
        own_good = [_reading(t, hosts) for t in usual if passes(t, hosts, finding.direction)]
        # what went up before a host fell silent does not matter
        is_silent = isinstance(finding, FleetFinding) and finding.kind == "HUNG"
        if min(len(readings), len(good)) >= FEWEST and not is_silent:
            rates = [test.value or 0.0 for test in low_tests]
            by_place[place] = tuple(_changes(readings, good, own_good, rates))
    return by_place


def _low_and_usual(
    verdict: FleetVerdict, tests: Sequence[PairTest]
) -> tuple[list[PairTest], list[PairTest]]:
    sides: tuple[list[PairTest], list[PairTest]] = [], []
    for test in tests:
        sides[not is_low(verdict, test)].append(test)
    return sides


def _blamed_tests(
    verdict: FleetVerdict, finding: FleetFinding | Suspect, tests: Sequence[PairTest]
) -> tuple[set[int], list[PairTest]]:
    """Return the hosts of a finding, both of a pair, and those tests that pass them."""
    hosts = blamed_hosts(verdict, finding)
    hits = [test for test in tests if passes(test, hosts, finding.direction)]
    if finding.place.kind == "pair":
        hits = [test for test in hits if finding.place.peer in (test.source, test.target)]
        hosts = hosts | {finding.place.peer}
    return hosts, hits


class Confirmation(Value, frozen=True, kw_only=True):
    """What the last step of a check showed, which tests a blamed host again."""

    low: int
    tests: int
    partners: tuple[int, ...]
    others_good: bool = True  # most pairs of other hosts are good alone

    @property
    def holds(self) -> bool:
        """Whether every test was low, and neither one partner nor what all share is the cause."""
        return self.others_good and self.low == self.tests >= FEWEST_AGAIN


def confirmations(verdict: FleetVerdict, tests: Sequence[PairTest]) -> dict[Part, Confirmation]:
    """Return what the last step showed of each part that it tested again."""
    last = max((test.round for test in tests), default=-1)
    usual = verdict.reference or 0.0
    again = [t for t in tests if t.round == last and t.alone and t.value is not None]
    others_good = _are_good_alone(verdict, tests)
    by_place: dict[Part, Confirmation] = {}
    for finding in verdict.blamed if usual else ():
        place = finding.place
        _, passing = _blamed_tests(verdict, finding, again)
        repeats = [test for test in passing if place.nic in (-1, test.nic)]
        if repeats:
            low = [test for test in repeats if is_low(verdict, test)]
            ends = {host for test in repeats for host in (test.source, test.target)}
            partners = tuple(sorted(ends - blamed_hosts(verdict, finding)))
            by_place[place] = Confirmation(
                low=len(low), tests=len(repeats), partners=partners, others_good=others_good
            )
    return by_place


def _are_good_alone(verdict: FleetVerdict, tests: Sequence[PairTest]) -> bool:
    """Tell whether most pairs of the sample are good alone; with known groups, partners are near.

    Where unknown links are shared, a low test says nothing of a host.
    """
    first = min((test.round for test in tests if test.alone), default=-1)
    culprits = {host for finding in verdict.blamed for host in blamed_hosts(verdict, finding)}
    sample = [
        is_low(verdict, test)
        for test in tests
        if test.round == first and culprits.isdisjoint((test.source, test.target))
    ]
    return bool(verdict.groups) or 2 * sum(sample) <= len(sample)


def _readings(test: PairTest) -> tuple[Mapping[str, float], ...]:
    return _reading(test, {test.source}), _reading(test, {test.target})


def _reading(test: PairTest, hosts: set[int]) -> dict[str, float]:
    """Return what went up on these hosts of a test; losses are counted where it was sent from."""
    sides = ((test.source, test.source_counters), (test.target, test.target_counters))
    return {
        name: value
        for end, (host, counters) in enumerate(sides)
        for name, value in counters.items()
        if (end == 0 if name.startswith("tcp.") else host in hosts)
    }


def _changes(
    readings: Readings, good: Readings, own_good: Readings, rates: Sequence[float]
) -> Iterator[CounterChange]:
    risen = _risen(readings, good, own_good)
    changes = sorted(risen, key=lambda change: -change.own / max(change.usual, 1e-6))
    low, middle, high = np.quantile(rates, (0.25, 0.5, 0.75))
    spread = float((high - low) / middle) if middle > 0 else math.inf
    mode = _mode(rates)
    is_set = len(mode) > max(FEWEST, MANY * len(rates))
    if is_set:  # whatever a full queue or a busy host costs the others
        spread = min(spread, mode[-1] / mode[0] - 1)
    limits = [c for c in changes if c.counter != LOSSES or c.own > SHAPED or spread > STEADY]
    is_policed = is_set or (spread <= EXACT and all(c.own < POLICED for c in limits))
    if spread <= STEADY and all(is_policed and c.counter == LOSSES for c in limits):
        yield CounterChange(counter=RATE, own=round(spread, 4), usual=STEADY)
    yield from limits


def _mode(rates: Sequence[float]) -> list[float]:
    """Return the most rates that differ by no more than `ALIKE`, from the lowest."""
    ascending = np.sort([rate for rate in rates if rate > 0])
    ends = np.searchsorted(ascending, ascending * (1 + ALIKE), side="right")
    first = int(np.argmax(ends - np.arange(len(ends)))) if len(ends) else 0
    return ascending[first : ends[first]].tolist() if len(ends) else []


def _risen(readings: Readings, good: Readings, own_good: Readings) -> Iterator[CounterChange]:
    for name in sorted({name for row in readings for name in row}):
        value = median(row.get(name, 0.0) for row in readings)
        baseline = own_good if name.startswith("queue.") else good  # others have other queues
        usual = float(np.quantile([row.get(name, 0.0) for row in baseline] or [math.inf], OFTEN))
        least = next(limit for prefix, limit in LEAST.items() if name.startswith(prefix))
        if value >= least and value > TIMES * usual:
            yield CounterChange(counter=name, own=round(value, 4), usual=round(usual, 4))


def drifts(facts: Mapping[int, Facts]) -> tuple[Drift, ...]:
    """Return settings in which hosts, by their numbers, differ, also without a majority."""
    values: defaultdict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for host, fact in facts.items():
        for path, interface, value in _settings(fact):
            values[path, interface][host] = value
    for (path, _), by_host in values.items():
        # what most hosts have; a bridge of one host alone, such as docker0, is no setting of all
        if path.startswith(MAY_LACK) and 2 * len(by_host) > len(facts):
            by_host |= {host: LACKING for host in facts if host not in by_host}
    differences = (_drift(*place, by_host) for place, by_host in values.items())
    return tuple(sorted((d for d in differences if d), key=lambda d: (len(d.hosts), d.setting)))


def _drift(path: str, interface: str, by_host: Mapping[int, str]) -> Drift | None:
    (usual, count), *_ = Counter(by_host.values()).most_common(1)
    odd = {host: value for host, value in by_host.items() if value != usual}
    if not odd:
        return None
    return Drift(
        path=path,
        interface=interface,
        setting=setting_name(path, interface),
        usual=usual,
        count=count,
        of=len(by_host),
        hosts=tuple(odd),
        values=tuple(odd.values()),
        slows=path.startswith(SLOWING),
    )


def _settings(facts: Facts) -> Iterator[tuple[str, str, str]]:
    """Return the settings of a host that are the same on alike hosts: path, interface, value."""
    settings = msgspec.to_builtins(facts)
    settings["memory"] = f"{facts.memory / GIB:.0f} GiB"
    for name, value in flat("", settings, leave=IDENTITY | UNLIKE):
        if value:
            yield name, "", value
    for interface in facts.interfaces:
        yield "interfaces.mtu", interface.name, str(interface.mtu)
        speed = format_rate(interface.speed) if interface.speed else ""
        for name, value in ("speed", speed), ("slot", interface.slot), ("duplex", interface.duplex):
            if value:
                yield f"interfaces.{name}", interface.name, value


def good_hosts(verdict: FleetVerdict, hosts: int) -> set[int]:
    """Return the hosts that are proven, and not blamed."""
    culprits = {host for finding in verdict.blamed for host in blamed_hosts(verdict, finding)}
    return set(range(hosts if verdict.tests else 0)) - culprits - set(verdict.unproven)


def causes(
    finding: FleetFinding, differences: Sequence[Drift], good: Collection[int] = ()
) -> tuple[Drift, ...]:
    """Return the settings that can make the hosts of a finding slow, and that only they have.

    No setting explains a host that does not answer; one explains slow hosts only where more than
    half of the hosts have another value, and none of the `good` hosts has theirs.
    """
    hosts = set(finding.reason.hosts or (finding.place.host,))
    is_lost = finding.reason.code == "lost"
    slowing = (d for d in differences if d.slows and 2 * d.count > d.of and not is_lost)
    return tuple(d for d in slowing if _explains(d, hosts, good))


def _explains(drift: Drift, hosts: set[int], good: Collection[int]) -> bool:
    values = dict(zip(drift.hosts, drift.values, strict=True))
    kinds = {values.get(host, drift.usual) for host in hosts}
    common = kinds.intersection(values[host] for host in good if host in values)
    return hosts <= values.keys() and not common and all(_is_worse(drift, value) for value in kinds)


def _is_worse(drift: Drift, value: str) -> bool:
    """Tell whether a value can make a host slower than the usual one; of some, only a smaller."""
    if not drift.path.startswith(FEWER) or value == LACKING:
        return True
    return drift.usual != LACKING and _number(value) < _number(drift.usual)


def _number(text: str) -> float:
    if text == NONE:  # no limit
        return math.inf
    return parse_rate(text) if text.endswith("bit") else float(text)
