"""The plan of a check: which pairs are tested when, and which are tested again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cluster.fleet.blame import DEEP, HOST, MANY
from cluster.fleet.host_findings import crowded_pairs, fresh_partners, short_hosts
from cluster.fleet.pair_table import diagnosed, pair_table
from cluster.fleet.rounds import first_rounds, schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from cluster.core.model.fleet import Fleet, PairTest
    from cluster.fleet.pair_table import Diagnosed
    from cluster.fleet.simulation import FleetSimulator

    Pairs = NDArray[np.int64]
    Measure = Callable[["SurveyStep"], Sequence[PairTest]]

CONFIRMATION = "confirmation"
ALL = 0  # rounds: until every pair has met
DEFAULT = 10  # rounds
FEW_HOSTS = 17  # whose pairs all meet in 16 or 17 rounds
MOST_AGAIN = 16  # pairs that are tested again for each reason
MOST_TIMES = 3  # repeated tests: clearing one suspect may leave another
PORTS = 8  # tried for a low pair of good hosts: other ports may take other paths
FEW_PORTS = 4  # of them if nothing arrives, or if there are many such pairs
LOUD = 1 / 3  # of the tests alone: where more are low, other work slows hosts down
MOST_OFTEN = 4  # low pairs that are tested by all ports, and their ends with others beside them


class SurveyStep(NamedTuple):
    """Pairs to test, in both directions.

    Args:
        pairs: of hosts, of the shape (pairs, 2).

    """

    number: int
    pairs: Pairs
    alone: bool
    port: int
    what: str


class SurveyPlan(NamedTuple):
    """How thorough a check is.

    Args:
        rounds: how many, as in `planned_rounds`.

    """

    rounds: int = DEFAULT
    alone: int = 8
    confirm: bool = False
    pairs: tuple[tuple[int, int], ...] = ()


def survey(
    fleet: Fleet, plan: SurveyPlan, measure: Measure, routes: FleetSimulator | None = None
) -> list[PairTest]:
    """Test a fleet: rounds, a sample of pairs alone, and unclear cases again."""
    tests: list[PairTest] = []
    if plan.pairs:
        tests += measure(_alone(0, plan.pairs, "the pairs that were named"))
        return tests
    rounds = planned_rounds(fleet.groups, plan.rounds)
    for number, pairs in enumerate(rounds):
        tests += measure(SurveyStep(number, pairs, alone=False, port=0, what=f"round {number + 1}"))
    sample = _sample(fleet, rounds, plan.alone) if rounds else []
    if sample:  # few rounds may have no pair of different groups
        tests += measure(_alone(_next(tests), sample, "a sample alone"))
    for _ in range(MOST_TIMES):
        for step in _repeated_tests(fleet, tests, routes):
            tests += measure(step)
    if plan.confirm and (again := _confirming(fleet, tests, routes)):
        tests += measure(_alone(_next(tests), again, CONFIRMATION))
    return tests


def planned_rounds(groups: Sequence[int], count: int) -> list[Pairs]:
    """Return the rounds of a check.

    Args:
        count: of rounds; `ALL` until every pair has met.

    Returns:
        The rounds. Few hosts have few pairs: from `DEFAULT` rounds on, all pairs of up to
        `FEW_HOSTS` hosts are tested.

    """
    if count == ALL:
        return list(schedule(groups))
    if count >= DEFAULT and len(groups) <= FEW_HOSTS:
        count = max(count, sum(1 for _ in schedule(groups)))
    return list(first_rounds(groups, count))


def _next(tests: Sequence[PairTest]) -> int:
    return 1 + max((test.round for test in tests), default=-1)


def _alone(number: int, pairs: Iterable[tuple[int, int]], what: str, port: int = 0) -> SurveyStep:
    return SurveyStep(
        number, np.array(list(pairs), dtype=np.int64), alone=True, port=port, what=what
    )


def _sample(fleet: Fleet, rounds: Sequence[Pairs], count: int) -> list[tuple[int, int]]:
    """Choose pairs to test alone: from different groups, if there are several."""
    groups = np.asarray(fleet.groups)
    met = np.concatenate(rounds)
    if fleet.grouped:
        met = met[groups[met[:, 0]] != groups[met[:, 1]]]
    chosen: list[int] = []
    seen: set[int] = set()
    for at, (a, b) in enumerate(met.tolist()):
        own = {int(groups[a]), int(groups[b])} if fleet.grouped else {a, b}
        if len(chosen) < count and not own <= seen:
            seen |= own
            chosen.append(at)
    left = [at for at in range(len(met)) if at not in set(chosen)]
    return [(int(a), int(b)) for a, b in met[[*chosen, *left[: count - len(chosen)]]]]


def _repeated_tests(
    fleet: Fleet, tests: Sequence[PairTest], routes: FleetSimulator | None
) -> Iterator[SurveyStep]:
    """Return the pairs to test again, alone: low tests that no blamed part explains."""
    table = pair_table(fleet, tests)
    if not table.tests or not (table.rates > 0).any():
        return
    found = diagnosed(table, routes)
    number = _next(tests)
    once = {_either_way((t.source, t.target)) for t in tests if t.alone}
    often = {_either_way((t.source, t.target)) for t in tests if t.port}
    unexplained = dict.fromkeys(map(_either_way, _unexplained_pairs(found)))
    silent, deep = _silent_pairs(found), _deep_pairs(found)
    odd = [p for p in unexplained if p not in often and (p in silent or p in deep)]
    doubtful = (
        *_suspects(fleet, found),
        *_beside_good(
            fleet, found, (int(b.part.removeprefix("host:")) for b in short_hosts(fleet, found))
        ),
        *crowded_pairs(fleet, found),
        *_slow_fabric(found),
    )
    others = [pair for pair in (*unexplained, *map(_either_way, doubtful)) if pair not in once]
    if again := dict.fromkeys([*odd, *others]):
        yield _alone(number, again, "what could be chance, alone")
    yield from _by_other_ports(fleet, found, odd, silent, number + 1)


def _by_other_ports(
    fleet: Fleet,
    found: Diagnosed,
    odd: Sequence[tuple[int, int]],
    silent: set[tuple[int, int]],
    number: int,
) -> Iterator[SurveyStep]:
    """Test low pairs of good hosts by other ports, which may take other paths.

    The first few are tested often, with each of their ends beside them with another good host: one
    of the ends may be slow at times, and so may one of several paths between them.
    """
    beside = [_beside(fleet, found, pair) for pair in odd[:MOST_OFTEN]]
    for port in range(1, PORTS if odd else 0):
        few = port < FEW_PORTS
        pairs = [
            pair
            for place, pair in enumerate(odd)
            if few or (place < MOST_OFTEN and pair not in silent)
        ]
        if pairs:
            pairs += [own[port % len(own)] for ends in beside for own in ends if own]
            once = dict.fromkeys(pairs)
            yield _alone(number + port - 1, once, "pairs of good hosts, by other ports", port)


def _beside(
    fleet: Fleet, found: Diagnosed, pair: tuple[int, int]
) -> tuple[list[tuple[int, int]], ...]:
    """Pair each end of a pair with good hosts other than the other end."""
    return tuple(
        [_either_way((end, host)) for host in fresh_partners(fleet, found, end) if host != other]
        for end, other in (pair, pair[::-1])
    )


def _either_way(pair: tuple[int, int]) -> tuple[int, int]:
    """Name a pair, of which a step tests both directions."""
    return min(pair), max(pair)


def _suspects(fleet: Fleet, found: Diagnosed) -> Iterator[tuple[int, int]]:
    """Pair each undecided host with good ones, and each that others may have slowed down."""
    ends = found.parts.endpoints
    undecided = (
        part
        for culprit in found.blame.undecided
        for part in (culprit.part, *culprit.twins)
        if part < 2 * ends
    )
    crowded = (culprit.part for culprit in found.blame.blamed if _in_crowd(found, culprit.part))
    hosts = (part % ends // fleet.nics for part in (*undecided, *crowded))
    return _beside_good(fleet, found, hosts)


def _in_crowd(found: Diagnosed, part: int) -> bool:
    """Tell whether all that speaks against a host are tests that shared links with others.

    Their chance takes them for independent, and fixed routes may put the same traffic into all.
    """
    own = found.blame.explained_by == part
    is_host = part < 2 * found.parts.endpoints
    return is_host and found.routes is None and bool(found.seen.shared[own].all())


def _beside_good(fleet: Fleet, found: Diagnosed, hosts: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Pair hosts with good ones: those short of processor time may have time now."""
    for host in list(dict.fromkeys(hosts))[:MOST_AGAIN]:
        yield from ((host, other) for other in fresh_partners(fleet, found, host))


def _unexplained_pairs(found: Diagnosed) -> Iterator[tuple[int, int]]:
    """Return pairs that are low although they shared nothing, or in which nothing arrived.

    If the routes are known, what a test lost to others is known, too, and is no low test.
    """
    table = found.table
    alone = ~found.seen.shared | (found.routes is not None)
    odd = found.blame.unexplained & (alone | (table.rates <= 0))
    for at in np.flatnonzero(odd)[:MOST_AGAIN]:
        yield table.tests[at].source, table.tests[at].target


def _silent_pairs(found: Diagnosed) -> set[tuple[int, int]]:
    """Return pairs in which nothing arrived."""
    return _pairs_of(found, found.blame.unexplained & (found.table.rates <= 0))


def _deep_pairs(found: Diagnosed) -> set[tuple[int, int]]:
    """Return pairs that are low by more than noise; none where other work slows hosts down.

    Where many tests alone are low, one more says nothing.
    """
    blame, alone = found.blame, found.table.alone
    if int(alone.sum()) >= MANY and float(blame.unexplained[alone].mean()) > LOUD:
        return set()
    line = float(blame.references[HOST]) * (1 - DEEP * blame.tolerance)
    return _pairs_of(found, blame.unexplained & (found.seen.values < line))


def _pairs_of(found: Diagnosed, wanted: NDArray[np.bool_]) -> set[tuple[int, int]]:
    tests = (found.table.tests[at] for at in np.flatnonzero(wanted))
    return {_either_way((test.source, test.target)) for test in tests}


def _slow_fabric(found: Diagnosed) -> Iterator[tuple[int, int]]:
    """Return pairs through each blamed group and link, which may be good alone."""
    first = 2 * found.parts.endpoints
    table = found.table
    blamed = [c.part for c in found.blame.blamed if c.part >= first]
    for part in blamed[:MOST_AGAIN]:
        for at in np.flatnonzero(found.blame.explained_by == part)[:2]:
            yield table.tests[at].source, table.tests[at].target


def _confirming(
    fleet: Fleet, tests: Sequence[PairTest], routes: FleetSimulator | None
) -> list[tuple[int, int]]:
    """Pair each blamed host with good hosts that it was not tested with."""
    table = pair_table(fleet, tests)
    if not table.tests or not (table.rates > 0).any():
        return []
    found = diagnosed(table, routes)
    ends = found.parts.endpoints
    hosts = dict.fromkeys(
        c.part % ends // fleet.nics for c in found.blame.blamed if c.part < 2 * ends
    )
    return [(h, other) for h in hosts for other in fresh_partners(fleet, found, h)]
