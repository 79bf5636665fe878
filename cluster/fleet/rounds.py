"""The plan of a check: which pairs are tested when, and which are tested again.

Rounds of disjoint pairs come in an order that is useful even if the check is stopped early. First
two rounds inside each group (rack, leaf switch, placement group), where a pair shares nothing but
its two hosts; then eight rounds between groups, in each of which every group is paired with one
other; then all pairs that are left.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, cycle, islice, pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from cluster.fleet.findings.groups import FEWEST_OF_GROUP, bad_groups, slow_groups
from cluster.fleet.findings.hosts import (
    PARTNERS,
    blamed_hosts,
    fresh_partners,
    short_hosts,
    suspected_hosts,
    unproven_hosts,
)
from cluster.fleet.findings.instability import (
    REPEATED,
    SEEMING,
    crowded_pairs,
    doubtful_hosts,
    varying_hosts,
)
from cluster.fleet.findings.pairs import bad_pairs, doubtful_pairs
from cluster.fleet.pair_table import Diagnosed, PairTable, pair_table, peers, solve_table
from cluster.fleet.solver import CROWD_CHANCE, DEEP, MANY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cluster.core.model.network.fleet import Fleet, PairTest
    from cluster.fleet.simulation import FleetSimulator

    Pairs = NDArray[np.int64]
    Measure = Callable[["SurveyStep"], Sequence[PairTest]]
    Clock = Callable[[], float]
    Hosts = NDArray[np.int64]

StepKind = Literal[
    "named", "round", "sample", "suspects", "chance", "varying", "again", "ports", "repeats",
    "unproven", "confirmation",
]  # fmt: skip
CONFIRMATION: StepKind = "confirmation"
ALL = 0  # rounds: until every pair has met
DEFAULT = 10  # rounds
FEW_HOSTS = 17  # whose pairs all meet in 16 or 17 rounds
PEERS = 8  # rounds of suspects among one another
MOST_REPEATS = 8  # times that a low pair of good hosts is tested by the same port
MOST_VARYING, TIMES = 8, 8  # hosts that may be slow at times, and tests of each
REPEATS, BESIDE = 20, 2  # of hosts that seem unstable, and how many other pairs are beside them
MOST_UNPROVEN = 64  # hosts that are tested alone for that reason only
MOST_AGAIN = 16  # pairs that are tested again for each reason
MOST_TIMES = 3  # repeated tests: clearing one suspect may leave another
PORTS = REPEATED  # tried for a low pair of good hosts: other ports may take other paths
FEW_PORTS = 4  # of them if nothing arrives, or if there are many such pairs
LOUD = 1 / 3  # of the tests alone: where more are low, other work slows hosts down
MOST_OFTEN = 4  # low pairs that are tested by all ports, and their ends with others beside them
INSIDE, BETWEEN = 2, 8  # rounds, before all pairs that are left
ROUNDS_SHARE = 0.5  # of the time of a check: the rest is for what the rounds leave open
CONFIRM_SHARE = 0.2  # of the time of a check, kept to test again what is blamed
STEP_SHARE = 0.5  # of the time that is left besides, for each step
WHOLE: tuple[StepKind, ...] = (
    "named",
    "round",
    "suspects",
    "unproven",
    CONFIRMATION,
)  # all of it, for these


class SurveyStep(NamedTuple):
    """Pairs to test, in both directions."""

    number: int
    pairs: Pairs  # of hosts, of the shape (pairs, 2)
    alone: bool
    port: int
    purpose: StepKind  # what it is for


class SurveyPlan(NamedTuple):
    """How thorough a check is."""

    rounds: int = DEFAULT  # how many, as in `planned_rounds`
    alone: int = 8
    confirm: bool = False
    pairs: tuple[tuple[int, int], ...] = ()
    seconds: float = 0.0  # for all tests together; 0 for no limit
    skip: tuple[int, ...] = ()  # hosts that are not tested


class _Budget:
    """The time of a survey; how much tests need is known from those that ran last."""

    def __init__(self, measure: Measure, remaining: Clock) -> None:
        self._measure = measure
        self._remaining = remaining
        self._whole = remaining()
        self._cost = 0.0  # seconds that tests at the same time take

    def has_rounds(self) -> bool:
        """Tell whether another round leaves the time for what follows the rounds."""
        return self._cost == 0 or self._remaining() - self._cost > (1 - ROUNDS_SHARE) * self._whole

    def run(self, step: SurveyStep) -> Sequence[PairTest]:
        """Run as much of a step as fits into its share of the time that is left."""
        before = self._remaining()
        if before < math.inf:
            free = before
            if step.purpose not in WHOLE:
                free = STEP_SHARE * (before - CONFIRM_SHARE * self._whole)
            fit = int(max(0.0, free) / self._cost) if self._cost else int(before > 0)
            step = step._replace(pairs=step.pairs[: fit if step.alone or not fit else None])
        if not len(step.pairs):
            return ()
        tests = self._measure(step)
        if before < math.inf:
            self._cost = (before - self._remaining()) / (len(step.pairs) if step.alone else 1)
        return tests


def survey(
    fleet: Fleet,
    plan: SurveyPlan,
    measure: Measure,
    routes: FleetSimulator | None = None,
    remaining: Clock = lambda: math.inf,
) -> list[PairTest]:
    """Test a fleet: rounds, a sample of pairs alone, and unclear cases again.

    What tells least is left out where too few seconds remain.
    """
    budget = _Budget(measure, remaining)
    tests: list[PairTest] = []
    if plan.pairs:
        tests += budget.run(_alone(0, plan.pairs, "named"))
        return tests
    rounds = _rounds_without(fleet.groups, plan)
    for number, pairs in enumerate(rounds):
        if not budget.has_rounds():
            rounds = rounds[:number]
            break
        tests += budget.run(SurveyStep(number, pairs, alone=False, port=0, purpose="round"))
    sample = _sample(fleet, rounds, plan.alone) if rounds else []
    if sample:  # few rounds may have no pair of different groups
        tests += budget.run(_alone(_next(tests), sample, "sample"))
    for step in _further_steps(fleet, tests, plan, routes):
        tests += budget.run(step)
    return tests


def _further_steps(
    fleet: Fleet, tests: Sequence[PairTest], plan: SurveyPlan, routes: FleetSimulator | None
) -> Iterator[SurveyStep]:
    """Return what to test again; each kind of step sees the tests of those before it in `tests`."""
    kinds = [
        (_repeated_tests, MOST_TIMES),
        (_among_suspects, 1),
        (_at_other_times, 1),
        (_low_pairs_again, MOST_REPEATS),
        (_doubtful_again, 1),
        (_proving, 2),
        (_confirming, int(plan.confirm)),
    ]
    for steps_of, times in kinds:
        for _ in range(times):
            table = pair_table(fleet, tests)
            if not table.tests or not (table.rates > 0).any():
                return
            steps = list(steps_of(tests, solve_table(table, routes)))
            yield from steps
            if not steps:
                break


def _rounds_without(groups: Sequence[int], plan: SurveyPlan) -> list[Pairs]:
    """Plan the rounds of the hosts that are to be tested."""
    hosts = np.setdiff1d(np.arange(len(groups)), plan.skip)
    return [hosts[pairs] for pairs in planned_rounds([groups[h] for h in hosts], plan.rounds)]


def planned_rounds(groups: Sequence[int], count: int) -> list[Pairs]:
    """Return this many rounds, or until every pair has met; also of few hosts, of few pairs."""
    if count == ALL:
        return list(schedule(groups))
    if count >= DEFAULT and len(groups) <= FEW_HOSTS:
        count = max(count, sum(1 for _ in schedule(groups)))
    return list(first_rounds(groups, count))


def _next(tests: Sequence[PairTest]) -> int:
    return 1 + max((test.round for test in tests), default=-1)


def _alone(
    number: int, pairs: Iterable[tuple[int, int]], purpose: StepKind, port: int = 0
) -> SurveyStep:
    return SurveyStep(
        number, np.array(list(pairs), dtype=np.int64), alone=True, port=port, purpose=purpose
    )


def _sample(fleet: Fleet, rounds: Sequence[Pairs], count: int) -> list[tuple[int, int]]:
    """Choose pairs to test alone: from different groups, if there are several."""
    groups = np.asarray(fleet.groups)
    pairs = np.concatenate(rounds)
    if fleet.has_groups:
        pairs = pairs[groups[pairs[:, 0]] != groups[pairs[:, 1]]]
    indices: list[int] = []
    sample: set[int] = set()
    ends = groups[pairs] if fleet.has_groups else pairs
    for index, pair in enumerate(ends.tolist()):
        if len(indices) == count:
            break
        if not sample.issuperset(pair):
            sample.update(pair)
            indices.append(index)
    rest = np.setdiff1d(np.arange(len(pairs)), indices).tolist()
    return [(int(a), int(b)) for a, b in pairs[[*indices, *rest[: count - len(indices)]]]]


def _repeated_tests(tests: Sequence[PairTest], solution: Diagnosed) -> Iterator[SurveyStep]:
    """Return the pairs to test again, alone: low tests that no blamed part explains."""
    number = _next(tests)
    once = {_either_way((t.source, t.target)) for t in tests if t.alone}
    often = {_either_way((t.source, t.target)) for t in tests if t.port}
    outliers = dict.fromkeys(map(_either_way, _unexplained_pairs(solution)))
    deep = _deep_pairs(solution)
    silent = _pairs_of(solution, solution.blame.outliers & (solution.table.rates <= 0))
    odd = [p for p in outliers if p not in often and (p in silent or p in deep)]
    doubtful = (
        *_suspects(solution),
        *_beside_good(solution, (host.place.host for host in short_hosts(solution))),
        *crowded_pairs(solution),
        *_slow_fabric(solution),
    )
    remaining = [pair for pair in (*outliers, *map(_either_way, doubtful)) if pair not in once]
    if again := dict.fromkeys([*odd, *remaining]):
        yield _alone(number, again, "chance")
    yield from _by_other_ports(solution, odd, silent, number + 1)


def _among_suspects(tests: Sequence[PairTest], solution: Diagnosed) -> Iterator[SurveyStep]:
    """Test suspects with one another: if they are good then, what is slow is a part they share."""
    hosts = np.array(_strangers(solution), dtype=np.int64)
    for number, pairs in enumerate(islice(tournament(len(hosts)), PEERS), _next(tests)):
        yield SurveyStep(number, hosts[pairs], alone=False, port=0, purpose="suspects")


def _strangers(solution: Diagnosed) -> list[int]:
    """Return suspects that may share a part, and were not all tested with one another yet."""
    suspects = suspected_hosts(solution)
    if len(suspects) > len(solution.fleet.names) / 2:  # in a thin fabric, most may have met others
        suspects = blamed_hosts(solution)
    several = FEWEST_OF_GROUP <= len(suspects) <= len(solution.fleet.names) / 2
    if solution.fleet.has_groups or not several or not solution.table.alone.any():
        return []
    hosts = solution.table.hosts[:, peers(solution.table)]
    return suspects if set(suspects) - set(hosts.ravel().tolist()) else []


def _at_other_times(tests: Sequence[PairTest], solution: Diagnosed) -> Iterator[SurveyStep]:
    """Test hosts that may be slow at times, alone with good hosts, several times."""
    number, doubtful = _next(tests), doubtful_hosts(solution, SEEMING)
    hosts = [host for host in varying_hosts(solution) if host not in doubtful]
    partners = {h: fresh_partners(solution, h, TIMES) for h in hosts[:MOST_VARYING]}
    for time in range(TIMES if any(partners.values()) else 0):
        pairs = [(host, group[time % len(group)]) for host, group in partners.items() if group]
        yield _alone(number + time, pairs, "varying")


def _low_pairs_again(tests: Sequence[PairTest], solution: Diagnosed) -> Iterator[SurveyStep]:
    """Test low pairs of good hosts by the port at which they were never good, at another time."""
    by_port: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    low_pairs = doubtful_pairs(solution, doubtful_hosts(solution))
    for port, pair in islice(low_pairs, MOST_AGAIN):
        by_port[port].append(pair)
    for number, (port, pairs) in enumerate(by_port.items(), _next(tests)):
        yield _alone(number, pairs, "again", port)


def _doubtful_again(tests: Sequence[PairTest], solution: Diagnosed) -> Iterator[SurveyStep]:
    """Test hosts that seem unstable at other times, alone with any host, and others beside them.

    The partners do not depend on earlier tests: healthy hosts are low as often as the others.
    """
    suspects = suspected_hosts(solution)
    doubtful = set(doubtful_hosts(solution, SEEMING)).difference(suspects)
    all_hosts = np.unique(solution.table.hosts)
    hosts = np.setdiff1d(all_hosts, suspects)
    times = islice(cycle(tournament(len(hosts))), REPEATS if doubtful else 0)
    for time, places in enumerate(times):
        pairs = [(a, b) for a, b in hosts[places].tolist()]
        repeats = [pair for pair in pairs if not doubtful.isdisjoint(pair)]
        controls = np.roll([pair for pair in pairs if pair not in repeats], time, axis=0)[:BESIDE]
        yield _alone(_next(tests) + time, [*repeats, *controls], "repeats", REPEATED + time)


def _proving(tests: Sequence[PairTest], solution: Diagnosed) -> Iterator[SurveyStep]:
    """Test the hosts alone that others may have kept from the usual rate in every test."""
    if solution.blame.culprits:  # then the time is for these
        return
    hosts = set(solution.table.hosts.ravel().tolist())
    unproven = set(unproven_hosts(solution)) & hosts
    suspects = suspected_hosts(solution)
    pairs = [
        (host, other)
        for host in sorted(unproven.union(() if _is_loud(solution) else suspects))[:MOST_UNPROVEN]
        for other in fresh_partners(solution, host, 1)
    ]
    for host in suspects[:MOST_VARYING]:  # and good pairs beside it
        for a, b in pairwise(fresh_partners(solution, host)):
            pairs += (a, b), (host, b)
    if pairs:
        yield _alone(_next(tests), dict.fromkeys(map(_either_way, pairs)), "unproven")


def _by_other_ports(
    solution: Diagnosed, odd: Sequence[tuple[int, int]], silent: set[tuple[int, int]], number: int
) -> Iterator[SurveyStep]:
    """Test low pairs of good hosts by other ports, which may take other paths.

    The first few are tested often, with each of their ends beside them with another good host: one
    of the ends may be slow at times, and so may one of several paths between them.
    """
    detours = [_neighbouring_pairs(solution, pair) for pair in odd[:MOST_OFTEN]]
    for port in range(1, PORTS if odd else 0):
        few = port < FEW_PORTS
        pairs = [
            pair
            for place, pair in enumerate(odd)
            if few or (place < MOST_OFTEN and pair not in silent)
        ]
        if pairs:
            pairs += [group[port % len(group)] for ends in detours for group in ends if group]
            once = dict.fromkeys(pairs)
            yield _alone(number + port - 1, once, "ports", port)


def _neighbouring_pairs(
    solution: Diagnosed, pair: tuple[int, int]
) -> tuple[list[tuple[int, int]], ...]:
    """Pair each end of a pair with good hosts other than the other end."""
    return tuple(
        [_either_way((end, host)) for host in fresh_partners(solution, end) if host != other]
        for end, other in (pair, pair[::-1])
    )


def _either_way(pair: tuple[int, int]) -> tuple[int, int]:
    """Name a pair, of which a step tests both directions."""
    return min(pair), max(pair)


def _suspects(solution: Diagnosed) -> Iterator[tuple[int, int]]:
    """Pair each undecided host with good ones, and each that others may have slowed down."""
    doubts = (
        part
        for culprit in solution.blame.doubts
        for part in (culprit.part, *culprit.twins)
        if solution.is_host(part)
    )
    weak = (  # one of a hundred healthy fleets has such a host: it is tested at another time
        c.part
        for c in solution.blame.culprits
        if solution.is_host(c.part) and (c.chance > CROWD_CHANCE or _in_crowd(solution, c.part))
    )
    hosts = map(solution.host, (*weak, *doubts))  # the blamed first
    return _beside_good(solution, hosts)


def _in_crowd(solution: Diagnosed, part: int) -> bool:
    """Tell whether all that speaks against a host are tests that shared links with others.

    Their chance takes them for independent, and fixed routes may put the same traffic into all.
    """
    mask = solution.blame.explained_by == part
    return solution.routes is None and bool(solution.tests.is_shared[mask].all())


def _beside_good(solution: Diagnosed, hosts: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Pair hosts with good ones: those short of processor time may have time now."""
    for host in list(dict.fromkeys(hosts))[:MOST_AGAIN]:
        yield from ((host, other) for other in fresh_partners(solution, host))


def _unexplained_pairs(solution: Diagnosed) -> Iterator[tuple[int, int]]:
    """Return pairs that are low although they shared nothing, or in which nothing arrived.

    If the routes are known, what a test lost to others is known, too, and is no low test.
    """
    table = solution.table
    odd = solution.blame.outliers & (solution.is_unshared | (table.rates <= 0))
    for index in np.flatnonzero(odd)[:MOST_AGAIN]:
        yield table.tests[index].source, table.tests[index].target


def _deep_pairs(solution: Diagnosed) -> set[tuple[int, int]]:
    """Return pairs that are low by more than noise; none where other work slows hosts down.

    Where many tests alone are low, one more says nothing.
    """
    if _is_loud(solution):
        return set()
    deep = solution.tests.values < solution.line(DEEP)
    return _pairs_of(solution, solution.blame.outliers & deep)


def _is_loud(solution: Diagnosed) -> bool:
    """Tell whether many tests alone are low, and no part explains them: others are at work."""
    low = solution.blame.outliers[solution.table.alone]
    return len(low) >= MANY and float(low.mean()) > LOUD


def _pairs_of(solution: Diagnosed, mask: NDArray[np.bool_]) -> set[tuple[int, int]]:
    tests = (solution.table.tests[index] for index in np.flatnonzero(mask))
    return {_either_way((test.source, test.target)) for test in tests}


def _pair_keys(table: PairTable) -> Hosts:
    """Number the pairs of endpoints, the same for both directions."""
    low, high = np.minimum(table.source, table.target), np.maximum(table.source, table.target)
    keys: Hosts = low * len(table.groups) + high
    return keys


def _slow_fabric(solution: Diagnosed) -> Iterator[tuple[int, int]]:
    """Return pairs through each suspected group and link, which may be good alone."""
    table, blame = solution.table, solution.blame
    once = _pair_keys(table)[table.alone]
    suspects = [c.part for c in solution.suspects if not solution.is_host(c.part)]
    for part in suspects[:MOST_AGAIN]:
        on_path = (solution.parts.paths == part).any(axis=1) & blame.low
        on_path &= np.isin(blame.explained_by, [part, -1]) & ~np.isin(_pair_keys(table), once)
        for index in np.flatnonzero(on_path)[:2]:
            yield table.tests[index].source, table.tests[index].target


def _confirming(tests: Sequence[PairTest], solution: Diagnosed) -> Iterator[SurveyStep]:
    """Test what is blamed once more: hosts with fresh partners, groups with others, low pairs."""
    groups = [*slow_groups(solution), *bad_groups(solution)]
    doubtful = doubtful_hosts(solution)
    members = [group.reason.hosts or solution.fleet.members(group.place.number) for group in groups]
    hosts = [] if _strangers(solution) else blamed_hosts(solution)
    single = [host for host in hosts if not any(host in part for part in members)]
    pairs = [
        *((host, other) for host in single for other in fresh_partners(solution, host)),
        *(pair for part in members for pair in _out_of(solution, part)),
        *[(low.place.host, low.place.peer) for low in bad_pairs(solution, doubtful)] * PARTNERS,
    ]
    if pairs:
        yield _alone(_next(tests), pairs, CONFIRMATION)


def _out_of(solution: Diagnosed, members: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pair hosts of a group with hosts of others, none of which is suspected."""
    left_out = {*members, *suspected_hosts(solution)}
    partners = (host for host in range(len(solution.fleet.names)) if host not in left_out)
    yield from zip(members[:PARTNERS], partners, strict=False)


def tournament(n: int) -> Iterator[Pairs]:
    """Return each pair of n hosts exactly once, by the circle method.

    In round r, hosts i and j meet if i + j = r modulo m, where m is the odd one of n and n - 1. If
    n is even, the host that would meet itself meets the last one (E. Lucas, Recreations
    mathematiques II, 1883).

    Yields:
        A round of disjoint pairs, of the shape (n // 2, 2); n - 1 of them, or n for an odd n.
    """
    odd = n - 1 + n % 2
    step = np.arange(1, (odd - 1) // 2 + 1)
    half = (odd + 1) // 2  # 2 * half = 1 modulo odd
    for number in range(odd if n > 1 else 0):
        alone = number * half % odd
        pairs = np.stack([(alone - step) % odd, (alone + step) % odd], axis=1)
        yield pairs if n % 2 else np.vstack([pairs, [[alone, n - 1]]])


def schedule(groups: Sequence[int]) -> Iterator[Pairs]:
    """Return all pairs of hosts once, in rounds of disjoint ones, the most useful first.

    They are n - 1 or n where there is one group, and n - 1 for an even number of groups of the same
    even size; other groups need more.
    """
    members = group_members(groups)
    n = len(groups)
    if len(members) == 1 or len(members) == n:
        yield from tournament(n)
        return
    meetings: set[int] = set()
    for pairs in chain(
        _inside(members, INSIDE), between_groups(members, BETWEEN), _rest(members), tournament(n)
    ):
        fresh = _fresh_pairs(pairs, meetings, n)
        meetings.update(_keys(fresh, n).tolist())
        if len(fresh):
            yield fresh


def first_rounds(groups: Sequence[int], count: int) -> Iterator[Pairs]:
    """Return this many rounds; if all pairs need fewer, they start over."""
    if len(groups) > 1:
        few = list(islice(schedule(groups), count))
        yield from islice(cycle(few), count)


def group_members(groups: Sequence[int]) -> list[Hosts]:
    labels = np.asarray(groups, dtype=np.int64)
    order = np.argsort(labels, kind="stable")
    ends = np.flatnonzero(np.diff(labels[order])) + 1
    return list(np.split(order, ends))


def _rest(members: list[Hosts]) -> Iterator[Pairs]:
    """Return all pairs in the fewest rounds, where the groups are of one size."""
    largest = max(map(len, members))
    yield from _inside(members, largest)
    meetings = len(members) - 1 + len(members) % 2
    yield from between_groups(members, meetings * largest)


def _inside(members: list[Hosts], count: int) -> Iterator[Pairs]:
    """Return the first rounds inside all groups at once; small groups need fewer."""
    rounds = [list(islice(tournament(len(hosts)), count)) for hosts in members]
    for number in range(count):
        pairs = [h[r[number]] for h, r in zip(members, rounds, strict=True) if number < len(r)]
        if pairs:
            yield np.concatenate(pairs)


def between_groups(members: Sequence[Hosts], count: int) -> Iterator[Pairs]:
    """Return rounds in which each group meets one other, host by host; again, shifted by one."""
    meetings = list(islice(tournament(len(members)), count))
    for number in range(count):
        again, meeting = divmod(number, len(meetings))
        pairs = [_meet(members[a], members[b], meeting + again) for a, b in meetings[meeting]]
        yield np.concatenate(pairs)


def _meet(hosts: Hosts, other: Hosts, shift: int) -> Pairs:
    few, many = sorted((hosts, other), key=len)
    place = (np.arange(len(few)) + shift) % len(many)
    return np.stack([few, many[place]], axis=1)


def _keys(pairs: Pairs, n: int) -> Hosts:
    keys: Hosts = pairs.min(axis=1) * n + pairs.max(axis=1)
    return keys


def _fresh_pairs(pairs: Pairs, meetings: set[int], n: int) -> Pairs:
    """Leave out pairs that have met before."""
    if not meetings:
        return pairs
    fresh = np.fromiter((k not in meetings for k in _keys(pairs, n).tolist()), bool, len(pairs))
    new_pairs: Pairs = pairs[fresh]
    return new_pairs
