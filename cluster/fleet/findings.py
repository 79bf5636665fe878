"""Findings about hosts, pairs of hosts, groups, links and the fabric as a whole."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from cluster.core.model.fleet import Fleet, FleetFinding, PairTest, Part, Reason, Suspect, Way
from cluster.fleet.pair_table import (
    CROWDED,
    Diagnosed,
    direction_of,
    most_common_reason,
    peers,
    unit_value,
)
from cluster.fleet.solver import (
    CHANCE,
    CROWD_CHANCE,
    GOOD,
    GROUP,
    HOST,
    LINK,
    MANY,
    OFTEN,
    Culprit,
    at_least,
    log_tail,
    solve,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cluster.fleet.pair_table import Flags


APART = 6.0  # median absolute deviations of groups' means, four standard deviations
FEWEST_OF_GROUP = 3  # hosts that are slow for one reason
ALIKE = 0.1  # by which the capacities of such hosts differ at most
DRIFTS = 0.8  # correlation with the number of the round, from which a host drifts
PARTNERS = 3  # of a host in a confirming run
SILENT_NAMED = 20  # pairs of silent flows that are listed
WORSE = 0.8  # of what other groups reach at the same time: a group below this is a finding


def untested_hosts(fleet: Fleet, tests: Sequence[PairTest]) -> Iterator[FleetFinding]:
    """Return the hosts that were lost, and those for which no test was tried."""
    counts = Counter(host for t in tests if t.value is not None for host in (t.source, t.target))
    lost = {test.lost: test.reason for test in tests if test.lost >= 0}
    untried = [test for test in tests if test.value is None]
    for host, name in enumerate(fleet.names):
        own = [t for t in untried if host in (t.source, t.target)]
        place = Part(kind="host", host=host)
        if host in lost:
            since = Reason(code="lost", message=lost[host], of=counts[host])
            yield FleetFinding(place=place, name=name, kind="HUNG", direction="both", reason=since)
        elif host not in counts:
            reason = Reason(code="untried", message=most_common_reason(own))
            yield FleetFinding(place=place, name=name, kind="UNTESTED", reason=reason)


def short_hosts(fleet: Fleet, solution: Diagnosed) -> Iterator[FleetFinding]:
    """Return the hosts of which nothing is known, as a processor limited all their low tests."""
    table, nics = solution.table, fleet.nics
    left_out = np.max(solution.parts.paths, axis=1) < 0
    short = np.unique(np.stack([table.source, table.target])[:, left_out] // nics)
    for host in short.tolist():
        ends = (table.source // nics == host, table.target // nics == host)
        ways = {
            way: own
            for way, own in zip(("tx", "rx"), ends, strict=True)
            if own.any() and left_out[own].all()
        }
        if not ways:
            continue
        own_busy = sum(
            int((table.busy[end] & left_out & own).sum()) for end, own in enumerate(ends)
        )
        tests = sum(int(own.sum()) for own in ways.values())
        yield FleetFinding(
            place=Part(kind="host", host=host),
            name=fleet.names[host],
            kind="UNTESTED",
            direction=direction_of(ways),
            reason=Reason(code="busy", low=own_busy, of=tests),
            partners=fresh_partners(fleet, solution, host),
        )


def suspected_hosts(fleet: Fleet, solution: Diagnosed) -> list[int]:
    """Return the hosts that are blamed or undecided."""
    ends = solution.parts.endpoints
    parts = (c.part for c in (*solution.blame.blamed, *solution.blame.undecided))
    return sorted({part % ends // fleet.nics for part in parts if part < 2 * ends})


def blamed_hosts(fleet: Fleet, solution: Diagnosed) -> list[int]:
    """Return the hosts that are blamed, in the order of what they explain."""
    ends = solution.parts.endpoints
    parts = (c.part for c in solution.blame.blamed if c.part < 2 * ends)
    return list(dict.fromkeys(part % ends // fleet.nics for part in parts))


def hidden_groups(fleet: Fleet, solution: Diagnosed) -> list[tuple[int, ...]]:
    """Return suspects that are good among themselves: they share an unnamed part.

    A host is as fast as its best test, so two that reach the usual rate with one another are good.
    """
    late = peers(solution.table) & ~solution.table.limited
    members = {host: {host} for host in suspected_hosts(fleet, solution)}
    for at in np.flatnonzero(late & (solution.table.rates >= line_of(solution))):
        test = solution.table.tests[at]
        if test.source in members and test.target in members:
            whole = members[test.source] | members[test.target]
            members.update(dict.fromkeys(whole, whole))
    blamed = set(blamed_hosts(fleet, solution))
    groups = {tuple(sorted(group)) for group in members.values()}
    return sorted(group for group in groups if len(blamed.intersection(group)) >= FEWEST_OF_GROUP)


def slow_groups(fleet: Fleet, solution: Diagnosed) -> Iterator[FleetFinding]:
    """Return groups of hosts with one cause: a part nobody knew of, or another kind of host."""
    blame, ends = solution.blame, solution.parts.endpoints
    suspects = {c.part: c for c in (*blame.blamed, *blame.undecided) if c.part < 2 * ends}
    hidden = hidden_groups(fleet, solution)
    for number, group in enumerate(hidden or _alike_groups(fleet, solution)):
        own = [c for part, c in suspects.items() if part % ends // fleet.nics in group]
        best = max(c.capacity for c in own)
        ways = {"rx" if c.part >= ends else "tx" for c in own}
        endpoints = [host * fleet.nics + nic for host in group for nic in range(fleet.nics)]
        for group_part in set(solution.table.groups[endpoints].tolist()):  # of tests with others
            ways |= {
                _way_of_group(solution, c) for c in _blamed_groups(solution).get(group_part, ())
            }
        yield FleetFinding(
            place=Part(kind="group", number=number if hidden else fleet.groups[group[0]]),
            kind="GROUP",
            direction=direction_of(ways, directed=fleet.directed),
            capacity=unit_value(fleet, solution, best),
            tests=sum(c.tests for c in own),
            reason=Reason(
                code="good_among_themselves" if hidden else "slow_everywhere",
                share=best / float(blame.references[HOST]),
                hosts=group,
            ),
        )


def _alike_groups(fleet: Fleet, solution: Diagnosed) -> Iterator[tuple[int, ...]]:
    """Return groups whose hosts are all slow, also among themselves, and by the same share."""
    if not fleet.grouped:
        return
    ends = solution.parts.endpoints
    worst: dict[int, float] = {}
    for culprit in solution.blame.blamed:
        if culprit.part < 2 * ends and culprit.capacity > 0:
            host = culprit.part % ends // fleet.nics
            worst[host] = min(culprit.capacity, worst.get(host, culprit.capacity))
    for number in dict.fromkeys(fleet.groups):
        group = tuple(host for host, own in enumerate(fleet.groups) if own == number)
        rates = [worst.get(host, 0.0) for host in group]
        if len(group) >= FEWEST_OF_GROUP and min(rates) > max(rates) * (1 - ALIKE):
            yield group


def bad_hosts(
    fleet: Fleet, solution: Diagnosed, groups: Iterable[FleetFinding] = ()
) -> Iterator[FleetFinding]:
    """Return the hosts, or NICs of hosts, that are blamed, but those of groups that are."""
    ends = solution.parts.endpoints
    culprits: defaultdict[int, list[Culprit]] = defaultdict(list)
    for culprit in solution.blame.blamed:
        if culprit.part < 2 * ends:  # hosts come before groups and links
            culprits[culprit.part % ends].append(culprit)
    of_host = Counter(end // fleet.nics for end in culprits)
    explained = {host for group in groups for host in group.reason.hosts}
    for end, own in culprits.items():
        host, nic = divmod(end, fleet.nics)
        if host in explained:
            continue
        if of_host[host] == fleet.nics and nic > 0:
            continue  # all its NICs are blamed: name the host once
        place = Part(kind="nic", host=host, nic=nic)
        if of_host[host] == fleet.nics:
            place = Part(kind="host", host=host)
        yield _bad_host(fleet, solution, place, own)


def _bad_host(
    fleet: Fleet, solution: Diagnosed, place: Part, own: Sequence[Culprit]
) -> FleetFinding:
    ends, blame = solution.parts.endpoints, solution.blame
    ways = {"rx" if culprit.part >= ends else "tx" for culprit in own}
    at = np.flatnonzero(np.isin(blame.explained_by, [culprit.part for culprit in own]))
    tests = [solution.table.tests[i] for i in at]
    failed = [test for test in tests if not test.value]
    worst = min(own, key=lambda culprit: culprit.capacity)
    hung = len(failed) == len(tests)
    reason = Reason(
        code="silent" if hung else "slow",
        share=0.0 if hung else worst.capacity / float(blame.references[HOST]),
        low=len(tests),
        of=_tests_of(solution, own),
        failed=len(failed),
        message=most_common_reason(failed),
    )
    if not hung:
        reason = _with_variation(solution, own, reason)
    return FleetFinding(
        place=place,
        name=fleet.names[place.host],
        kind="HUNG" if hung else "UNSTABLE" if reason.best else "BAD",
        direction=direction_of(ways, directed=fleet.directed),
        capacity=None if hung else unit_value(fleet, solution, worst.capacity),
        tests=len(tests),
        reason=reason,
        partners=fresh_partners(fleet, solution, place.host),
    )


def _with_variation(solution: Diagnosed, own: Sequence[Culprit], reason: Reason) -> Reason:
    """Add how tests that only this host explains vary over time, if they do."""
    usable = ~solution.tests.shared | (solution.routes is not None)
    at = np.flatnonzero(np.isin(solution.blame.explained_by, [c.part for c in own]) & usable)
    rates = solution.tests.values[at]
    if len(at) < MANY or rates.min() <= 0 or np.quantile(rates, 0.2) > CROWDED * rates.max():
        return reason
    rounds = np.array([solution.table.tests[i].round for i in at], dtype=np.float64)
    trend = float(np.corrcoef(rounds, rates)[0, 1]) if rounds.std() > 0 else 0.0
    return replace(
        reason,
        best=float(rates.max() / solution.blame.references[HOST]),
        worst=float(np.quantile(rates, 0.2) / rates.max()),
        drifts=trend < -DRIFTS,
    )


def _tests_of(solution: Diagnosed, own: Sequence[Culprit]) -> int:
    parts = [culprit.part for culprit in own]
    return int(np.isin(solution.parts.paths, parts).any(axis=1).sum())


def fresh_partners(
    fleet: Fleet, solution: Diagnosed, host: int, count: int = PARTNERS
) -> tuple[int, ...]:
    """Choose good partners to test a host with: hosts of its group and new partners first."""
    ends, nics = solution.parts.endpoints, fleet.nics
    bad = {c.part % ends // nics for c in (*solution.blame.blamed, *solution.blame.undecided)}
    source, target = solution.table.source // nics, solution.table.target // nics
    met = set(target[source == host].tolist()) | set(source[target == host].tolist())
    tested = set(np.unique(np.concatenate([source, target])).tolist())
    fit = [h for h in tested if h != host and h not in bad]
    fit.sort(key=lambda h: (fleet.groups[h] != fleet.groups[host], h in met, h))
    return tuple(fit[:count])


class PairCounts(NamedTuple):
    """The tests alone of a pair of good hosts that was low."""

    pair: tuple[int, int]
    low: tuple[PairTest, ...]
    ways: dict[tuple[int, int, int], list[bool]]  # source, target, port: the tests that were low
    # source, target: which tests of the one, and of the other, with other hosts were low
    ends: dict[tuple[int, int], tuple[Flags, Flags]]

    @property
    def silent(self) -> bool:
        """Whether nothing arrived in any low test."""
        return not any(test.value for test in self.low)

    def chance(self, share: float, pairs: int) -> float:
        """Return the chance that a healthy fleet, or one with an unstable host, has a pair like it.

        A pair is tested again because its first test was low, so that one says nothing. `share` of
        other tests are low, and each of `pairs` could be low by chance.
        """
        if self.silent:
            return share ** len(self.low) * pairs
        directions: defaultdict[tuple[int, int], list[list[bool]]] = defaultdict(list)
        for (source, target, _), low in self.ways.items():
            directions[source, target].append(low)
        chances = []
        for way, lows in directions.items():
            again = [low[1:] for low in lows if len(low) > 1]
            # Other ports may take other paths: each is compared with itself at another time.
            whole = [odd for low in again for odd in low]
            chances += [
                times * self._chance(low, self.ends[way], share, pairs)
                for times, low in ((1, whole), *((len(again), low) for low in again))
            ]
        return 2 * len(directions) * min(chances)

    @staticmethod
    def _chance(low: Sequence[bool], ends: Iterable[Flags], share: float, pairs: int) -> float:
        """Return the chance of repeated tests; their host may be low as often with all others."""
        tests, hits = len(low), sum(low)
        by_ends = (log_tail(tests + len(e), hits + int(e.sum()), tests, hits) for e in ends)
        return max(at_least(hits, tests, share) * pairs, *map(math.exp, by_ends))


def _low_pairs(
    solution: Diagnosed, unstable: Collection[int]
) -> Iterator[tuple[PairCounts, float]]:
    """Return pairs of stable hosts that are low or silent alone, with the chance of each."""
    table = solution.table
    tests_of_pair: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for at, test in enumerate(table.tests):
        if test.alone or not test.value:
            tests_of_pair[min(test.source, test.target), max(test.source, test.target)].append(at)
    odd, alone = solution.blame.unexplained, table.alone
    silent = odd & (table.rates <= 0)
    ways = np.array([(test.source, test.target, test.port, test.alone) for test in table.tests])
    first = np.zeros_like(alone)  # a test is repeated because it was low
    first[np.unique(ways, axis=0, return_index=True)[1]] = True
    hosts = ways[:, 0], ways[:, 1]
    first &= alone
    for pair, places in tests_of_pair.items():
        own = [at for at in places if odd[at]]
        if not own or set(pair) & set(unstable):
            continue
        by_port: defaultdict[tuple[int, int, int], list[bool]] = defaultdict(list)
        for at in places:
            test = table.tests[at]
            by_port[test.source, test.target, test.port].append(bool(odd[at]))
        ends = {
            (a, b): (odd[alone & (hosts[0] == a) & (hosts[1] != b)],
                     odd[alone & (hosts[1] == b) & (hosts[0] != a)])
            for a, b in (pair, pair[::-1])
        }  # fmt: skip
        counts = PairCounts(pair, tuple(table.tests[at] for at in own), dict(by_port), ends)
        # Pairs of one group and of two differ in what others can take from them.
        same_kind = first & (table.between == table.between[own[0]])
        compared, low = (np.ones_like(odd), silent) if counts.silent else (same_kind, odd & alone)
        compared[own] = False
        share = (int((low & compared).sum()) + 0.5) / (int(compared.sum()) + 1)
        # Where others often take bandwidth from a pair alone, its low tests may be their traffic.
        doubt = CHANCE / CROWD_CHANCE if share > OFTEN and not counts.silent else 1.0
        yield counts, doubt * counts.chance(share, _pairs(solution, silent=counts.silent))


def bad_pairs(solution: Diagnosed, unstable: Collection[int]) -> Iterator[FleetFinding]:
    """Return pairs of good, stable hosts that are low or silent alone, too often for chance."""
    for counts, chance in _low_pairs(solution, unstable):
        if chance > CHANCE:
            continue
        pair, low = counts.pair, counts.low
        failed = [test for test in low if not test.value]
        ways = {(test.source, test.target) for test in low}
        total = sum(len(every) for (a, b, _), every in counts.ways.items() if (a, b) in ways)
        yield FleetFinding(
            place=Part(kind="pair", host=pair[0], peer=pair[1]),
            kind="LINK",
            direction="both" if len(ways) > 1 else "tx" if pair in ways else "rx",
            capacity=max(test.value or 0.0 for test in low) or None,
            tests=len(low),
            reason=Reason(
                code="low_pair",
                low=len(low),
                of=total,
                failed=len(failed),
                message=most_common_reason(failed),
            ),
        )


def doubtful_pairs(
    solution: Diagnosed, unstable: Collection[int]
) -> Iterator[tuple[int, tuple[int, int]]]:
    """Return pairs that could be low by chance, with the ports at which they were never good."""
    for counts, chance in _low_pairs(solution, unstable):
        if not counts.silent and chance > CHANCE:
            ports = {port for (_, _, port), low in counts.ways.items() if all(low)}
            yield from ((port, counts.pair) for port in sorted(ports))


def _pairs(solution: Diagnosed, *, silent: bool) -> int:
    """Count the pairs of which each could be silent, or low alone, by chance."""
    usable = (test for test in solution.table.tests if silent or test.alone)
    return len({(min(t.source, t.target), max(t.source, t.target)) for t in usable})


def silent_flows(solution: Diagnosed, findings: Iterable[FleetFinding]) -> Iterator[Suspect]:
    """Return the fabric, if nothing ever arrives by some flows, and no part is blamed for it.

    A flow is what fixed routes depend on: a sender, a receiver, their NICs and a port.
    """
    table = solution.table
    links = {frozenset((f.place.host, f.place.peer)) for f in findings if f.place.kind == "pair"}
    flows = [(test.source, test.target, test.nic, test.port) for test in table.tests]
    open_ = (table.rates <= 0) & (solution.blame.explained_by < 0)
    silent = {flows[at] for at in np.flatnonzero(open_)}
    silent -= {flows[at] for at in np.flatnonzero(table.rates > 0)}
    silent = {flow for flow in silent if frozenset(flow[:2]) not in links}
    if silent:
        pairs = tuple(dict.fromkeys((source, target) for source, target, *_ in sorted(silent)))
        reason = Reason(
            code="silent_flows", low=len(silent), of=len(set(flows)), pairs=pairs[:SILENT_NAMED]
        )
        yield Suspect(place=Part(kind="fabric"), reason=reason)


def alone_between(fleet: Fleet, solution: Diagnosed) -> float:
    """Return what the best pairs of different groups reach alone, of what a host does.

    However few uplinks there are, a pair alone has as much of them as it can use: 1 where others
    may have taken some, as most pairs reach less than the best ones.
    """
    table = solution.table
    own = np.sort(table.rates[table.between & table.alone & (solution.blame.explained_by < 0)])
    is_known = fleet.grouped and fleet.metric == "bandwidth" and own.size >= MANY
    if not is_known or np.median(own) < GOOD * own[-2]:
        return 1.0
    return float(own[-2] / solution.blame.references[HOST])


def unproven_hosts(fleet: Fleet, solution: Diagnosed) -> tuple[int, ...]:
    """Return hosts that reached the usual rate in no test, of one direction at least."""
    table = solution.table
    good = (table.rates >= line_of(solution)) & (solution.tests.paths >= 0).any(axis=1)
    proven = [set((ends[good] // fleet.nics).tolist()) for ends in (table.source, table.target)]
    proven_hosts = proven[0] & proven[1] if fleet.directed else proven[0] | proven[1]
    return tuple(host for host in range(len(fleet.names)) if host not in proven_hosts)


def line_of(solution: Diagnosed, tolerances: float = 1.0) -> float:
    """Return the value below which a test is low, in bytes per second."""
    return float(solution.blame.references[HOST]) * (1 - tolerances * solution.blame.tolerance)


def undecided_hosts(fleet: Fleet, solution: Diagnosed) -> Iterator[Suspect]:
    """Return suspects whose low tests could also be chance, or caused by another part."""
    ends = solution.parts.endpoints
    for culprit in solution.blame.undecided:
        if culprit.part < 2 * ends:
            place, direction = _end(fleet, culprit.part, ends)
            yield Suspect(
                place=place,
                direction=direction,
                reason=Reason(code="same_tests" if culprit.twins else "chance", low=culprit.tests),
                twins=tuple(_end(fleet, twin, ends) for twin in culprit.twins),
            )


def undecided_groups(fleet: Fleet, solution: Diagnosed) -> Iterator[Suspect]:
    """Return suspected groups with their hosts; links that all share do that, too."""
    first, count = 2 * solution.parts.endpoints, solution.parts.groups
    names, group_of = np.unique(np.asarray(fleet.groups), return_inverse=True)
    for culprit in solution.blame.undecided:
        if not first <= culprit.part < first + 2 * count:
            continue
        group = (culprit.part - first) % count // fleet.nics
        hosts = tuple(np.flatnonzero(group_of == group).tolist())
        way = "rx" if culprit.part >= first + count else "tx"
        yield Suspect(
            place=Part(kind="group", number=int(names[group])),
            direction=direction_of({way}, directed=fleet.directed),
            reason=Reason(code="chance", low=culprit.tests, hosts=hosts),
        )


def _end(fleet: Fleet, part: int, ends: int) -> tuple[Part, Way]:
    way = direction_of({"rx" if part >= ends else "tx"}, directed=fleet.directed)
    return Part(kind="host", host=part % ends // fleet.nics), way


def bad_groups(fleet: Fleet, solution: Diagnosed) -> Iterator[FleetFinding]:
    """Return the groups whose traffic to other groups is slow, whichever host sends."""
    names = np.unique(np.asarray(fleet.groups))
    for group, culprits in _blamed_groups(solution).items():
        ways = {_way_of_group(solution, c) for c in culprits}
        worst = min(culprits, key=lambda c: c.capacity)
        number, nic = divmod(group, fleet.nics)
        usual = float(solution.blame.references[GROUP])
        yield FleetFinding(
            place=Part(kind="group", number=int(names[number])),
            kind="GROUP",
            direction=direction_of(ways, directed=fleet.directed),
            capacity=unit_value(fleet, solution, worst.capacity),
            tests=sum(c.tests for c in culprits),
            reason=Reason(
                code="slow_group", share=worst.capacity / usual, nic=nic if fleet.nics > 1 else -1
            ),
        )


def _blamed_groups(solution: Diagnosed) -> dict[int, list[Culprit]]:
    first, count = 2 * solution.parts.endpoints, solution.parts.groups
    own: defaultdict[int, list[Culprit]] = defaultdict(list)
    for culprit in solution.blame.blamed:
        if first <= culprit.part < first + 2 * count:
            own[(culprit.part - first) % count].append(culprit)
    return own


def _way_of_group(solution: Diagnosed, culprit: Culprit) -> str:
    return "tx" if culprit.part < 2 * solution.parts.endpoints + solution.parts.groups else "rx"


def bad_links(fleet: Fleet, solution: Diagnosed) -> Iterator[FleetFinding]:
    """Return the links and spine switches that are blamed, if the routes are known."""
    if solution.routes is None:
        return
    fabric_links = solution.routes.fabric_links
    first = 2 * (solution.parts.endpoints + solution.parts.groups)
    links = fabric_links.count - 2 * solution.parts.endpoints
    own: defaultdict[Part, dict[str, Culprit]] = defaultdict(dict)
    for culprit in solution.blame.blamed:
        at = culprit.part - first
        if at >= links:
            own[Part(kind="spine", number=at - links)]["both"] = culprit
        elif at >= 0:
            place, up = fabric_links.ends(at + 2 * solution.parts.endpoints)
            own[place]["tx" if up else "rx"] = culprit
    for place, ways in own.items():
        worst = min(ways.values(), key=lambda c: c.capacity)
        share = worst.capacity / float(solution.blame.references[LINK])
        yield FleetFinding(
            place=place,
            kind="LINK",
            direction=direction_of(ways),
            capacity=unit_value(fleet, solution, worst.capacity),
            tests=sum(c.tests for c in ways.values()),
            reason=Reason(code="slow_link", share=share),
        )


def shared_fabric(fleet: Fleet, solution: Diagnosed) -> Iterator[FleetFinding]:
    """Compare pairs between groups alone and all at once: the fabric causes the difference."""
    table = solution.table
    innocent = solution.blame.explained_by < 0
    wide = table.between if fleet.grouped else np.ones_like(table.between)
    ratios = _at_once_ratios(solution, wide & innocent)
    if not ratios.size:
        return
    everywhere = float(np.median(ratios))
    values = table.rates[wide & innocent & ~table.alone]
    if everywhere < CROWDED and values.size:
        share = float(np.median(values)) / float(solution.blame.references[HOST])
        yield FleetFinding(
            place=Part(kind="fabric"),
            kind="SHARED",
            capacity=unit_value(fleet, solution, float(np.median(values))),
            tests=len(ratios),
            reason=Reason(code="shared", low=len(ratios), best=everywhere, share=share),
        )


def crowded_hosts(fleet: Fleet, solution: Diagnosed) -> Iterator[FleetFinding]:
    """Name the hosts that are slow only while others send, where it is not known which share links.

    By the tests at once they would be blamed; alone they are good.
    """
    tests = solution.tests
    if fleet.grouped or solution.routes is not None or tests.shared.all():
        return
    crowd = solve(tests._replace(paths=np.where(tests.shared[:, None], tests.paths, -1)))
    accused = {c.part for c in (*solution.blame.blamed, *solution.blame.undecided)}
    slow = [
        c for c in crowd.blamed if c.part < 2 * solution.parts.endpoints and c.part not in accused
    ]
    if not slow:
        return
    ends = solution.parts.endpoints
    hosts = dict.fromkeys(c.part % ends // fleet.nics for c in sorted(slow, key=lambda c: c.part))
    best = max(c.capacity for c in slow)
    yield FleetFinding(
        place=Part(kind="routes"),
        kind="SHARED",
        capacity=unit_value(fleet, solution, best),
        tests=sum(c.tests for c in slow),
        reason=Reason(
            code="slow_at_once",
            share=best / float(solution.blame.references[HOST]),
            hosts=tuple(hosts),
        ),
    )


def crowded_groups(fleet: Fleet, solution: Diagnosed) -> Iterator[FleetFinding]:
    """Find groups whose traffic to others is slower than other groups', but only while all send."""
    table = solution.table
    innocent = table.between & ~table.alone & (solution.blame.explained_by < 0) & (table.rates > 0)
    innocent &= ~(table.limited & (solution.parts.paths < 0).all(axis=1))
    blamed = {c.part for c in solution.blame.blamed}
    names = np.unique(np.asarray(fleet.groups))
    if not innocent.any():
        return
    means: dict[tuple[int, str], float] = {}
    tests: Counter[int] = Counter()
    first, count = 2 * solution.parts.endpoints, solution.parts.groups
    for way, ends in (("tx", table.source), ("rx", table.target)):
        for group in range(count):
            own = innocent & (table.groups[ends] == group)  # the mean is what its uplinks carry
            if own.sum() >= MANY and first + group + (count if way == "rx" else 0) not in blamed:
                means[group, way] = float(np.mean(table.rates[own]))
                tests[group] += int(own.sum())
    for group in range(count):
        means_of_others = [mean for (number, _), mean in means.items() if number != group]
        own_means = {way: means[group, way] for way in ("tx", "rx") if (group, way) in means}
        if len(means_of_others) < FEWEST_OF_GROUP or not own_means:
            continue
        usual = float(np.median(means_of_others))
        spread = APART * float(np.median(np.abs(np.array(means_of_others) - usual)))
        ways = [way for way, mean in own_means.items() if mean < min(WORSE * usual, usual - spread)]
        if ways:
            yield FleetFinding(
                place=Part(kind="group", number=int(names[group // fleet.nics])),
                kind="GROUP",
                direction=direction_of(ways),
                capacity=unit_value(fleet, solution, min(own_means.values())),
                tests=tests[group],
                reason=Reason(code="slow_group_at_once", usual=unit_value(fleet, solution, usual)),
            )


def group_hosts(fleet: Fleet, group: FleetFinding) -> tuple[int, ...]:
    """Return the hosts of a group that a finding names."""
    number = group.place.number
    return group.reason.hosts or tuple(h for h, own in enumerate(fleet.groups) if own == number)


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


def _at_once_ratios(solution: Diagnosed, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the rate at once over the rate alone, for each direction tested in both ways."""
    table = solution.table
    alone: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    crowd: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    for at in np.flatnonzero(mask & (table.rates > 0) & ~table.limited):
        key = (int(table.source[at]), int(table.target[at]))
        (alone if table.alone[at] else crowd)[key].append(float(table.rates[at]))
    pairs = [key for key in alone if key in crowd]
    ratios = [float(np.median(crowd[key]) / np.median(alone[key])) for key in pairs]
    return np.array(ratios)
