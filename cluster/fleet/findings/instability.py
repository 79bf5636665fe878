"""Hosts that are good only some of the time, as no other host is at the same times."""

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cluster.core.model.network.fleet import FleetFinding, Part, Reason, Suspect
from cluster.fleet.findings.hosts import PARTNERS, fresh_partners
from cluster.fleet.findings.pairs import bad_pairs
from cluster.fleet.pair_table import Diagnosed, Flags, direction_of, most_common_reason, peers
from cluster.fleet.solver import AGAIN_CHANCE, CHANCE, DEEP, at_least, log_tail, unstable_parts

ODD = 0.05  # chance of a host that is low at times, from which it is tested again
SEEMING = 1.0  # directions of a healthy fleet that may seem unstable at first, on average
HALVED = 2  # hosts: of one slow pair, either could be the cause
REPEATED = 8  # the first port of tests that are repeated at other times


def unstable_hosts(solution: Diagnosed) -> Iterator[FleetFinding]:
    """Return hosts that are good only some of the time, at other times again, and others are not.

    The null model: in the repeated tests, such a host is low as often as those beside it.
    """
    doubtful = doubtful_hosts(solution, SEEMING)
    limit = math.log(AGAIN_CHANCE / max(1, sum(2 * len(ways) - 1 for ways in doubtful.values())))
    odd, again = solution.blame.outliers, _comparable_tests(solution)
    hosts = solution.table.hosts
    baseline = again & ~np.isin(hosts, list(doubtful)).any(axis=0)
    culprits: list[int] = []
    for host, every in doubtful.items():
        innocent = again & ~np.isin(hosts, culprits).any(axis=0)  # by those that are named before
        mask = innocent & (hosts == host)
        ways = [w for w in every if _log_chance(odd, mask[int(w.way == "rx")], baseline) <= limit]
        if not ways and len(every) > 1 and _log_chance(odd, mask.any(axis=0), baseline) <= limit:
            ways = every
        if not ways:
            continue
        culprits.append(host)
        indices = np.flatnonzero(odd & (hosts == host).any(axis=0))
        low_tests = [solution.table.tests[i] for i in indices]
        low, count = sum(w.low for w in ways), sum(w.partners for w in ways)
        yield FleetFinding(
            place=Part(kind="host", host=host),
            name=solution.fleet.names[host],
            kind="UNSTABLE",
            direction=direction_of((w.way for w in ways), directed=solution.fleet.directed),
            tests=low,
            reason=Reason(code="varying", low=low, of=count, message=most_common_reason(low_tests)),
            partners=fresh_partners(solution, host),
        )


def _log_chance(odd: Flags, mask: Flags, baseline: Flags) -> float:
    """Return how likely as many of its repeats are low, drawn from them and those beside it."""
    counts = (mask | baseline, odd & (mask | baseline), mask, odd & mask)
    return log_tail(*(int(flags.sum()) for flags in counts))


class LowAtTimes(NamedTuple):
    """A direction of a host that is low with some of its partners."""

    way: str
    low: int
    partners: int


def doubtful_hosts(solution: Diagnosed, most: float = CHANCE) -> dict[int, list[LowAtTimes]]:
    """Return hosts that were low at times before the repeats; of healthy ones, at most so many."""
    ways: defaultdict[int, list[LowAtTimes]] = defaultdict(list)
    for part, low, count in _varying_parts(solution, most):
        if _is_low_by_itself(solution, part):
            ways[solution.host(part)].append(LowAtTimes(solution.way(part), low, count))
    return dict(ways)


def repeated_tests(solution: Diagnosed) -> Flags:
    """Tell which tests are those of hosts that seem unstable, and of others beside them."""
    flags: Flags = np.array([test.port >= REPEATED for test in solution.table.tests])
    return flags


def _comparable_tests(solution: Diagnosed) -> Flags:
    """Tell which repeated tests may show a host: not those of a pair that is bad by itself."""
    again = repeated_tests(solution)
    if again.any():
        ends = solution.table.hosts
        for pair in bad_pairs(solution, doubtful_hosts(solution)):
            again &= ~np.isin(ends, (pair.place.host, pair.place.peer)).all(axis=0)
    return again


def unrepeated_hosts(solution: Diagnosed) -> Iterator[Suspect]:
    """Return hosts that were low at times, and not tested again as good as those beside them."""
    doubtful, odd = doubtful_hosts(solution, SEEMING), doubtful_hosts(solution)
    ends = solution.table.hosts
    again = _comparable_tests(solution)
    baseline = again & ~np.isin(ends, list(doubtful)).any(axis=0)
    limit = math.log(ODD / max(1, 2 * len(doubtful)))
    for host, ways in doubtful.items():
        mask = again & (ends == host)
        sides = [mask.any(axis=0), *(mask[int(way.way == "rx")] for way in ways)]
        has_repeats = baseline.any() and sides[0].any()
        chance = min(_log_chance(solution.blame.outliers, side, baseline) for side in sides)
        if chance <= limit if has_repeats else host in odd:
            low = sum(way.low for way in ways)
            direction = direction_of((way.way for way in ways), directed=solution.fleet.directed)
            place = Part(kind="host", host=host)
            yield Suspect(place=place, direction=direction, reason=Reason(code="chance", low=low))


def halved_hosts(solution: Diagnosed) -> Iterator[Suspect]:
    """Return the host through which all tests alone go that had less than half of the usual rate.

    Noise does not take half from a test alone, whatever it hides of the others.
    """
    deep = solution.table.alone & solution.blame.outliers
    deep &= solution.tests.values < solution.reference / 2
    ends = solution.table.hosts[:, deep]
    for host in set(ends.ravel().tolist()) if len(np.unique(ends)) > HALVED else ():
        sides = (ends == host).any(axis=1)
        if (ends == host).any(axis=0).all():
            way = direction_of(w for w, side in zip(("tx", "rx"), sides, strict=True) if side)
            reason = Reason(code="chance", low=int(deep.sum()))
            yield Suspect(place=Part(kind="host", host=host), direction=way, reason=reason)


def crowded_pairs(solution: Diagnosed) -> Iterator[tuple[int, int]]:
    """Return low pairs of hosts that are good at times, never low in a test that shared nothing.

    Fixed routes may have put the same traffic beside them: alone, they may be good.
    """
    once = {(t.source, t.target) for t in solution.table.tests if t.alone}
    for part, _, _ in _varying_parts(solution):
        if _is_low_by_itself(solution, part):
            continue
        mask = solution.blame.outliers & (solution.parts.paths == part).any(axis=1)
        pairs = [
            (t.source, t.target) for t, odd in zip(solution.table.tests, mask, strict=True) if odd
        ]
        yield from [pair for pair in dict.fromkeys(pairs) if pair not in once][:PARTNERS]


def _varying_parts(solution: Diagnosed, most: float = CHANCE) -> Iterator[tuple[int, int, int]]:
    ends = solution.parts.endpoints
    hosts = np.arange(2 * ends) % ends // solution.fleet.nics
    paths = np.where(repeated_tests(solution)[:, None], -1, solution.tests.paths)
    return unstable_parts(solution.blame, solution.tests._replace(paths=paths), hosts, most)


def _is_low_by_itself(solution: Diagnosed, part: int) -> bool:
    """Tell whether a part has a low test that others cannot have slowed down."""
    low = solution.parts.paths[solution.is_unshared & solution.blame.outliers]
    return bool((low == part).any())


def varying_hosts(solution: Diagnosed) -> list[int]:
    """Return hosts that are low in more rounds than most others, one way, the worst first.

    They may be slow at times; others may as well have taken their bandwidth.
    """
    table, blame, count = solution.table, solution.blame, len(solution.fleet.names)
    deep = blame.outliers & (solution.tests.values < solution.line(DEEP))
    at_once = ~table.alone & ~peers(table) & (blame.explained_by < 0)
    rounds = np.array([test.round for test in table.tests], dtype=np.int64)[at_once]
    ways = table.hosts[:, at_once] + [[0], [count]]
    keys = np.stack([ways.ravel(), np.tile(rounds, 2)], axis=1)
    events, place = np.unique(keys, axis=0, return_inverse=True)
    is_low = np.ones(len(events), dtype=np.bool_)
    is_low[place.ravel()[~np.tile(deep[at_once], 2)]] = False
    low = np.bincount(events[is_low, 0], minlength=2 * count)
    totals = np.bincount(events[:, 0], minlength=2 * count)
    # Each test is one of two hosts; those of the host itself say nothing about the others.
    foreign = [sums.sum() / 2 - sums.reshape(2, count).sum(axis=0) for sums in (low, totals)]
    shares = np.tile((foreign[0] + 0.5) / (foreign[1] + 1), 2)
    chances = {
        way: at_least(int(low[way]), int(totals[way]), shares[way])
        for way in np.flatnonzero((low > 1) & (low > shares * totals))  # others are not odd
    }
    odd = [way for way in sorted(chances, key=chances.__getitem__) if chances[way] < ODD]
    return list(dict.fromkeys(int(way) % count for way in odd))
