"""Findings about groups of hosts: racks, leaf switches, or hosts that share an unnamed part."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cluster.core.model.network.fleet import Fleet, FleetFinding, Part, Reason, Suspect, Way
from cluster.fleet.findings.hosts import blamed_hosts, suspected_hosts
from cluster.fleet.pair_table import Diagnosed, Flags, PairTable, direction_of, peers, unit_value
from cluster.fleet.solver import GROUP, MANY, Culprit

WAYS: tuple[Way, Way] = ("tx", "rx")
APART = 6.0  # median absolute deviations of groups' means, four standard deviations
FEWEST_ROUNDS = 3  # that show whether a group is always slower
BELOW_CHANCE = 0.002  # that a healthy fleet has a group whose rounds are as far below the others
FEWEST_OF_GROUP = 3  # hosts that are slow for one reason
ALIKE = 0.1  # by which the capacities of such hosts differ at most
WORSE = 0.8  # of what other groups reach at the same time: a group below this is a finding


def slow_groups(solution: Diagnosed) -> Iterator[FleetFinding]:
    """Return groups of hosts with one cause: a part nobody knew of, or another kind of host."""
    suspects = {c.part: c for c in solution.suspects if solution.is_host(c.part)}
    hidden = hidden_groups(solution)
    for number, group in enumerate(hidden or _alike_groups(solution)):
        culprits = [c for part, c in suspects.items() if solution.host(part) in group]
        best = max(c.capacity for c in culprits)
        ways = {solution.way(c.part) for c in culprits}
        endpoints = [
            host * solution.fleet.nics + nic for host in group for nic in range(solution.fleet.nics)
        ]
        for group_part in set(solution.table.groups[endpoints].tolist()):  # of tests with others
            ways |= {
                _way_of_group(solution, c) for c in _blamed_groups(solution).get(group_part, ())
            }
        yield FleetFinding(
            place=Part(kind="group", number=number if hidden else solution.fleet.groups[group[0]]),
            kind="GROUP",
            direction=direction_of(ways, directed=solution.fleet.directed),
            capacity=unit_value(solution, best),
            tests=sum(c.tests for c in culprits),
            reason=Reason(
                code="good_among_themselves" if hidden else "slow_everywhere",
                share=best / solution.reference,
                hosts=group,
            ),
        )


def hidden_groups(solution: Diagnosed) -> list[tuple[int, ...]]:
    """Return suspects that are good among themselves: they share an unnamed part.

    A host is as fast as its best test, so two that reach the usual rate with one another are good.
    """
    late = peers(solution.table) & ~solution.table.is_limited
    members = {host: {host} for host in suspected_hosts(solution)}
    for index in np.flatnonzero(late & (solution.table.rates >= solution.line())):
        test = solution.table.tests[index]
        if test.source in members and test.target in members:
            whole = members[test.source] | members[test.target]
            members.update(dict.fromkeys(whole, whole))
    culprits = set(blamed_hosts(solution))
    groups = {tuple(sorted(group)) for group in members.values()}
    return sorted(group for group in groups if len(culprits.intersection(group)) >= FEWEST_OF_GROUP)


def _alike_groups(solution: Diagnosed) -> Iterator[tuple[int, ...]]:
    """Return groups whose hosts are all slow, also among themselves, and by the same share."""
    if not solution.fleet.has_groups:
        return
    worst: dict[int, float] = {}
    for culprit in solution.blame.culprits:
        if solution.is_host(culprit.part) and culprit.capacity > 0:
            host = solution.host(culprit.part)
            worst[host] = min(culprit.capacity, worst.get(host, culprit.capacity))
    for number in dict.fromkeys(solution.fleet.groups):
        group = solution.fleet.members(number)
        rates = [worst.get(host, 0.0) for host in group]
        if len(group) >= FEWEST_OF_GROUP and min(rates) > max(rates) * (1 - ALIKE):
            yield group


def bad_groups(solution: Diagnosed) -> Iterator[FleetFinding]:
    """Return the groups whose traffic to other groups is slow, whichever host sends."""
    names = np.unique(np.asarray(solution.fleet.groups))
    for group, culprits in _blamed_groups(solution).items():
        ways = {_way_of_group(solution, c) for c in culprits}
        worst = min(culprits, key=lambda c: c.capacity)
        number, nic = divmod(group, solution.fleet.nics)
        usual = float(solution.blame.references[GROUP])
        yield FleetFinding(
            place=Part(kind="group", number=int(names[number])),
            kind="GROUP",
            direction=direction_of(ways, directed=solution.fleet.directed),
            capacity=unit_value(solution, worst.capacity),
            tests=sum(c.tests for c in culprits),
            reason=Reason(
                code="slow_group",
                share=worst.capacity / usual,
                nic=nic if solution.fleet.nics > 1 else -1,
            ),
        )


def _blamed_groups(solution: Diagnosed) -> dict[int, list[Culprit]]:
    first, count = 2 * solution.parts.endpoints, solution.parts.groups
    by_group: defaultdict[int, list[Culprit]] = defaultdict(list)
    for culprit in solution.blame.culprits:
        if first <= culprit.part < first + 2 * count:
            by_group[(culprit.part - first) % count].append(culprit)
    return by_group


def _way_of_group(solution: Diagnosed, culprit: Culprit) -> str:
    return "tx" if culprit.part < 2 * solution.parts.endpoints + solution.parts.groups else "rx"


def undecided_groups(solution: Diagnosed) -> Iterator[Suspect]:
    """Return suspected groups with their hosts; links that all share do that, too."""
    first, count = 2 * solution.parts.endpoints, solution.parts.groups
    names, group_of = np.unique(np.asarray(solution.fleet.groups), return_inverse=True)
    for culprit in solution.blame.doubts:
        if not first <= culprit.part < first + 2 * count:
            continue
        group = (culprit.part - first) % count // solution.fleet.nics
        hosts = tuple(np.flatnonzero(group_of == group).tolist())
        way = "rx" if culprit.part >= first + count else "tx"
        yield Suspect(
            place=Part(kind="group", number=int(names[group])),
            direction=direction_of({way}, directed=solution.fleet.directed),
            reason=Reason(code="chance", low=culprit.tests, hosts=hosts),
        )


class LowGroup(NamedTuple):
    """A group whose tests with others, while all send, are slower than other groups'."""

    place: Part
    direction: Way
    capacity: float
    usual: float  # the median of the other groups
    tests: int
    slow: Way  # in which direction it is below by more than chance; empty if it is in none


def crowded_groups(solution: Diagnosed, low: Iterable[LowGroup]) -> Iterator[FleetFinding]:
    """Return groups whose traffic to others is slower over rounds, but only while all send."""
    for group in low:
        if group.slow:
            yield FleetFinding(
                place=group.place,
                kind="GROUP",
                direction=group.slow,
                capacity=unit_value(solution, group.capacity),
                tests=group.tests,
                reason=Reason(code="slow_group_at_once", usual=unit_value(solution, group.usual)),
            )


def doubtful_groups(solution: Diagnosed, low: Iterable[LowGroup]) -> Iterator[Suspect]:
    """Return groups that were slower while all sent, in too few rounds or not in each."""
    for group in low:
        if not group.slow:
            hosts = solution.fleet.members(group.place.number)
            reason = Reason(code="chance", low=group.tests, hosts=hosts)
            yield Suspect(place=group.place, direction=group.direction, reason=reason)


def low_groups(solution: Diagnosed) -> Iterator[LowGroup]:
    """Return the groups below the others, each in the ways in which it is."""
    table = solution.table
    innocent = table.between & ~table.alone & (solution.blame.explained_by < 0) & (table.rates > 0)
    innocent &= ~(table.is_limited & (solution.parts.paths < 0).all(axis=1))
    culprits = {c.part for c in solution.blame.culprits}
    names = np.unique(np.asarray(solution.fleet.groups))
    means: dict[tuple[int, Way], float] = {}
    tests: Counter[int] = Counter()
    first, count = 2 * solution.parts.endpoints, solution.parts.groups
    for way, ends in zip(WAYS, (table.source, table.target), strict=True):
        for group in range(count) if innocent.any() else ():
            mask = innocent & (table.groups[ends] == group)  # the mean is what its uplinks carry
            if mask.sum() >= MANY and first + group + (count if way == "rx" else 0) not in culprits:
                means[group, way] = float(np.mean(table.rates[mask]))
                tests[group] += int(mask.sum())
    for group in range(count):
        means_of_others = [mean for (number, _), mean in means.items() if number != group]
        own_means = {way: means[group, way] for way in WAYS if (group, way) in means}
        if len(means_of_others) < FEWEST_OF_GROUP or not own_means:
            continue
        usual = float(np.median(means_of_others))
        spread = APART * float(np.median(np.abs(np.array(means_of_others) - usual)))
        ways = [way for way, mean in own_means.items() if mean < min(WORSE * usual, usual - spread)]
        if ways:
            yield LowGroup(
                place=Part(kind="group", number=int(names[group // solution.fleet.nics])),
                direction=direction_of(ways),
                capacity=min(own_means[way] for way in ways),
                usual=usual,
                tests=tests[group],
                slow=_slow_direction(table, innocent, group, ways),
            )


def _slow_direction(table: PairTable, mask: Flags, group: int, ways: Iterable[Way]) -> Way:
    """Return in which direction the rounds of a group are below tests without it, if in any.

    A round may be unlucky for a group whose flows were put on the same links: the rounds are what
    varies, and their logarithms take Student's distribution.
    """
    is_of_group = np.stack([table.groups[table.source], table.groups[table.target]]) == group
    rest = table.rates[mask & ~is_of_group.any(axis=0)]
    rounds = np.array([test.round for test in table.tests], dtype=np.int64)
    logs: dict[Way, list[float]] = {}
    for way in ways:
        flags = mask & is_of_group[int(way == "rx")]
        counts = np.bincount(rounds[flags])
        sums = np.bincount(rounds[flags], weights=table.rates[flags])
        if int((counts > 0).sum()) >= FEWEST_ROUNDS and rest.size:
            means = sums[counts > 0] / counts[counts > 0] / float(np.mean(rest))
            logs[way] = np.log(means).tolist()
    if len(logs) > 1:
        logs = {"both": [*logs["tx"], *logs["rx"]], **logs}
    cases = 3 * (int(table.groups.max()) + 1)  # directions and groups
    return next((way for way in logs if cases * _chance(logs[way]) < BELOW_CHANCE), "")


def _chance(logs: Sequence[float]) -> float:
    error = float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    return student_tail(-float(np.mean(logs)) / max(error, 1e-9), len(logs) - 1)


def student_tail(value: float, freedom: int) -> float:
    """Return the chance of Student's t beyond a value, for whole degrees of freedom.

    M. Abramowitz, I. A. Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4.
    """
    angle = math.atan2(value, math.sqrt(freedom))
    odd = freedom % 2
    term, total = (math.cos(angle) if odd else 1.0), 0.0
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (power + 1) / (power + 2)
    inside = math.sin(angle) * total
    return (1 - (2 / math.pi * (angle + inside) if odd else inside)) / 2


def is_of_group(fleet: Fleet, host: FleetFinding, groups: Iterable[FleetFinding]) -> bool:
    """Tell whether a group explains a finding about a host of it: slow in no other direction."""
    own = host.place.host
    return any(
        own in group.reason.hosts
        if group.reason.hosts
        else group.place.number == fleet.groups[own] and group.direction in ("both", host.direction)
        for group in groups
    )


def is_across(fleet: Fleet, pair: FleetFinding, groups: Iterable[FleetFinding]) -> bool:
    """Tell whether a pair has one end in a slow group, whose other tests are as slow."""
    ends = pair.place.host, pair.place.peer
    return any(
        len({end in group.reason.hosts for end in ends}) > 1
        if group.reason.hosts
        else len({fleet.groups[end] == group.place.number for end in ends}) > 1
        for group in groups
    )
