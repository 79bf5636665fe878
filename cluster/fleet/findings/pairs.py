"""Findings about pairs of good hosts."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cluster.core.model.network.fleet import FleetFinding, PairTest, Part, Reason, Suspect
from cluster.fleet.pair_table import Diagnosed, Flags, direction_of, most_common_reason
from cluster.fleet.solver import AGAIN_CHANCE, CHANCE, CROWD_CHANCE, OFTEN, at_least, log_tail

ALIKE = 0.1  # by which the values of such tests differ at most
STUBBORN = 8  # tests alone of a flow at different times, all low and alike: it is suspected
DEEP_SHARE, DEEP_STUBBORN = 0.45, 5  # so many of less than this: one flow beside it leaves half
NEXT_TO_NOTHING = 0.1  # of the usual rate, in all tests of a pair: flows beside it leave more


class PairCounts(NamedTuple):
    """The tests alone of a pair of good hosts that was low."""

    pair: tuple[int, int]
    low: tuple[PairTest, ...]
    rates: tuple[float, ...]  # of these tests, in the unit of the table's
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
    for i, test in enumerate(table.tests):
        if test.alone or not test.value:
            tests_of_pair[min(test.source, test.target), max(test.source, test.target)].append(i)
    odd, alone = solution.blame.outliers, table.alone
    silent = odd & (table.rates <= 0)
    ways = np.array([(test.source, test.target, test.port, test.alone) for test in table.tests])
    first = np.zeros_like(alone)  # a test is repeated because it was low
    first[np.unique(ways, axis=0, return_index=True)[1]] = True
    hosts = ways[:, 0], ways[:, 1]
    first &= alone
    for pair, places in tests_of_pair.items():
        indices = [i for i in places if odd[i]]
        if not indices or set(pair) & set(unstable):
            continue
        by_port: defaultdict[tuple[int, int, int], list[bool]] = defaultdict(list)
        for i in places:
            test = table.tests[i]
            by_port[test.source, test.target, test.port].append(bool(odd[i]))
        ends = {
            (a, b): (odd[alone & (hosts[0] == a) & (hosts[1] != b)],
                     odd[alone & (hosts[1] == b) & (hosts[0] != a)])
            for a, b in (pair, pair[::-1])
        }  # fmt: skip
        low_tests = tuple(table.tests[i] for i in indices)
        rates = tuple(table.rates[indices].tolist())
        counts = PairCounts(pair, low_tests, rates, dict(by_port), ends)
        # Pairs of one group and of two differ in what others can take from them.
        same_kind = first & (table.between == table.between[indices[0]])
        baseline, low = (np.ones_like(odd), silent) if counts.silent else (same_kind, odd & alone)
        baseline[indices] = False
        others_low = int((low & baseline).sum())
        share = (others_low + 0.5) / (int(baseline.sum()) + 1)
        # Where others take bandwidth from pairs alone, low tests of one pair may be their traffic.
        limit = CROWD_CHANCE if share > OFTEN else AGAIN_CHANCE if others_low else CHANCE
        doubt = 1.0 if counts.silent else CHANCE / limit
        yield counts, doubt * counts.chance(share, _pairs(solution, silent=counts.silent))


def bad_pairs(solution: Diagnosed, unstable: Collection[int]) -> Iterator[FleetFinding]:
    """Return pairs of good, stable hosts that are low or silent alone, too often for chance."""
    for counts, chance in _low_pairs(solution, unstable):
        if chance > CHANCE:
            continue
        pair, low = counts.pair, counts.low
        failures = [test for test in low if not test.value]
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
                failed=len(failures),
                message=most_common_reason(failures),
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


def stubborn_pairs(
    solution: Diagnosed, unstable: Collection[int], findings: Iterable[FleetFinding]
) -> Iterator[Suspect]:
    """Return pairs of which a flow was low alone each time, and alike, and that are not blamed.

    Many of them count against each other where one switch slows them all. Flows of neighbours slow
    a pair, too, but not by the same share each time, and not to a tenth.
    """
    links = {(f.place.host, f.place.peer) for f in findings if f.place.kind == "pair"}
    for counts, chance in _low_pairs(solution, unstable):
        if counts.silent or chance <= CHANCE or counts.pair in links:
            continue
        values: defaultdict[tuple[int, int, int], dict[int, float]] = defaultdict(dict)
        for test, rate in zip(counts.low, counts.rates, strict=True):
            values[test.source, test.target, test.port][test.round] = rate
        ways = [
            way
            for way, low in counts.ways.items()
            if all(low) and _is_stubborn(solution, values[way])
        ]
        is_nothing = max(counts.rates) < NEXT_TO_NOTHING * solution.reference
        if is_nothing and all(map(all, counts.ways.values())):
            ways = list(counts.ways)
        if ways:
            yield Suspect(
                place=Part(kind="pair", host=counts.pair[0], peer=counts.pair[1]),
                direction=direction_of("tx" if way[:2] == counts.pair else "rx" for way in ways),
                reason=Reason(code="chance", low=sum(len(values[way]) for way in ways)),
            )


def _is_stubborn(solution: Diagnosed, values: Mapping[int, float]) -> bool:
    """Tell whether tests alone, by their rounds, are enough and alike."""
    least, most = min(values.values()), max(values.values())
    is_deep = most < DEEP_SHARE * solution.reference
    return len(values) >= (DEEP_STUBBORN if is_deep else STUBBORN) and least > most * (1 - ALIKE)


def _pairs(solution: Diagnosed, *, silent: bool) -> int:
    """Count the pairs of which each could be silent, or low alone, by chance."""
    usable = (test for test in solution.table.tests if silent or test.alone)
    return len({(min(t.source, t.target), max(t.source, t.target)) for t in usable})
