"""Finds the parts of a fleet that explain its slow pairs.

A test is as fast as the slowest part on its path. So the capacity of a part is the largest value of
its tests, and a part is bad only if all of its tests are low: the principal solution of a min-plus
system (P. Butkovic, "Max-linear systems", 2010, section 3.1). With five tests or more, the second
largest value is used, so that one lucky test does not clear a bad part.

Low tests are explained greedily: each time, the suspect that explains most is taken. The rarer a
value as low as that of a test is among healthy parts, the higher is the weight of the test; the
suspects on its path share this weight. A test speaks against a suspect only if it is as low as the
capacity of the suspect, unless other tests could have slowed it down.

A suspect is blamed only if healthy parts would look like it by chance in less than one of a hundred
fleets; with several suspects, at most one in a hundred of those blamed is wrong (Y. Benjamini, Y.
Hochberg, 1995). If each of its tests shared links, it is one of ten thousand fleets, whatever else
is blamed there (see below); alone, they do where tests alone are often low between good hosts, too.
Otherwise there are not enough rounds, and it is undecided.

# The chance that low tests of one host are chance

The null model: the tests of a healthy host that share links with others are independent draws from
the tests of the whole fleet that do. Two things are then independent of one another.

- How low the best of them is: none of n draws is above it.
- How close the others are to the best: given the best, they are draws from what lies below it.
  Those of a slow host pile up just below its capacity. Contention leaves halves and thirds, each in
  many tests of the fleet, and anything else in few. The statistic is that of R. H. Berk and D. H.
  Jones (1979): of all k, the one for which k draws as close as the k closest are most surprising.
  Each has a binomial chance, and there are as many as k.

Both are combined by the product of R. A. Fisher (1932). A host whose capacity is also that of
contention has no pile of its own; then the first alone says more. The chance is the smaller of the
two, twice.

# Suspects that are blamed together

Where any test may have met others' traffic, the low tests of one bad host look like a background
to those of the next. Together they are telling: if L of N tests are low, drawn at random, the
number of low ones among the T tests of some parts is hypergeometric; and there are so many ways to
choose these parts. Suspects are taken in the order in which they explain most. One that met fewer
than half of the others is left undecided: all of its tests may have passed the same slow link.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Values = NDArray[np.float64]
    Flags = NDArray[np.bool_]

HOST, LINK, GROUP, SPINE = range(4)  # kinds of parts; of two that explain the same, the first
MANY = 5  # tests, from which the largest value alone does not clear a part
REFERENCE = 75  # percentile of the capacities of a kind: three quarters of them may be bad
GOOD = 0.9  # of the reference: the spread of tests above this is the noise
LEAST_TOLERANCE, MOST_TOLERANCE = 0.02, 0.25
SPREADS = 9.0  # median absolute deviations; one-sided noise is beyond them in 3 of 10,000 tests
DEEP = 1.5  # tolerances: a test that is low by more than this is low by more than noise ever is
LUCKY = 0.5  # of its weight that a suspect keeps if it has a good test
LEAST_WEIGHT = 1e-6  # of a low test that is as frequent among healthy parts
CHANCE = 0.01  # that a healthy fleet has anything blamed, and that a blamed part is healthy
AGAIN_CHANCE = 0.002  # the same for what is tested again beside others that are low at times, too
CROWD_CHANCE = 0.0001  # the same for a part all of whose tests shared links: each may be contention
OFTEN = 0.15  # of tests alone of good parts that are low: others may take bandwidth from any test
LOUD_CHANCE = 1e-6  # the same where they are: a pair's tests alone pass the same links each time
QUIET = 0.05  # unexplained share of concurrent tests, from which they prove nothing about one host
MET = 0.5  # of the other hosts, that one of several suspects must have met


class PairTests(NamedTuple):
    """The tests, as arrays."""

    paths: Numbers  # the parts on the path of each test, of the shape (tests, hops), padded with -1
    values: Values  # bytes per second of each test; 0 if nothing arrived
    is_shared: Flags
    kinds: Numbers
    events: Numbers | None = None  # the same number for tests at the same time
    unknown: bool = False  # which tests share links: any two at the same time may


class Culprit(NamedTuple):
    """A part that is blamed, or suspected."""

    part: int
    capacity: float  # the largest value of its tests, in bytes per second
    tests: int
    chance: float
    twins: tuple[int, ...] = ()


class Blame(NamedTuple):
    """The parts that explain the low tests."""

    culprits: tuple[Culprit, ...]
    doubts: tuple[Culprit, ...]  # suspects that are undecided
    capacities: Values  # of each part; NaN if it was not tested
    references: Values
    tolerance: float  # a test is low if it is below the reference by more than this share of it
    low: Flags
    explained_by: Numbers  # the part that explains each test; -1 if none does

    @property
    def outliers(self) -> Flags:
        """Low tests that no blamed part explains."""
        return self.low & (self.explained_by < 0)


def solve(tests: PairTests) -> Blame:
    """Find the parts that explain the low tests."""
    capacities = part_capacities(tests.paths, tests.values, len(tests.kinds))
    references = _references(capacities, tests.kinds)
    free = tests.values[~tests.is_shared & (tests.values > 0) & (tests.paths[:, 0] >= 0)]
    if tests.unknown and free.size >= MANY:  # what most reach alone, where all are slow at once
        references[HOST] = max(references[HOST], np.percentile(free, 100 - REFERENCE))
    host = references[HOST] = _usual(tests.values, references[HOST])
    tolerance = usual_spread(tests.values / host) if host > 0 else LEAST_TOLERANCE
    per_part = references[tests.kinds] * (1 - tolerance)
    usual = np.append(per_part, np.inf)[tests.paths].min(axis=1)  # -1 is the last: no part
    is_located = np.isfinite(usual)  # there are parts on the path
    low = is_located & (tests.values < usual)
    suspects = capacities < per_part  # never a part that was not tested: NaN compares false
    healthy = is_located & ~np.append(suspects, np.False_)[tests.paths].any(axis=1)
    edges = np.append(capacities * (1 - tolerance), np.nan)[tests.paths]
    too_low = ~tests.is_shared[:, None] & (tests.values[:, None] < edges)
    able = np.where(too_low, -1, tests.paths)
    is_exposed = ~tests.is_shared & ((tests.paths[:, 2:] >= 0).any(axis=1) | tests.unknown)
    alone = low[healthy & is_exposed]
    loud = len(alone) >= MANY and float(alone.mean()) > OFTEN
    crowd = tests.is_shared | (is_exposed & loud)
    most_suspected = loud and float(suspects[tests.kinds == HOST].mean()) > 1 / 2
    chances = _Chances(tests, healthy, per_part, most_suspected=most_suspected)
    limit = LOUD_CHANCE if loud else CROWD_CHANCE
    explained_by, culprits, doubts = _explain(tests, able, low, suspects, chances, (crowd, limit))
    return Blame(
        culprits=tuple(culprits),
        doubts=tuple(doubts),
        capacities=capacities,
        references=references,
        tolerance=tolerance,
        low=low,
        explained_by=explained_by,
    )


def part_capacities(paths: Numbers, values: Values, parts: int) -> Values:
    """Return the largest value of each part, or the second of five and more; NaN of no test."""
    tests, hops = np.nonzero(paths >= 0)
    part = paths[tests, hops]
    order = np.lexsort((-values[tests], part))
    counts = np.bincount(part, minlength=parts)
    first = np.cumsum(counts) - counts
    place = first + (counts >= MANY)
    ranking = values[tests][order]
    capacities = np.full(parts, np.nan)
    is_tested = counts > 0
    capacities[is_tested] = ranking[place[is_tested]]
    return capacities


def _references(capacities: Values, kinds: Numbers) -> Values:
    """Return the capacity that most parts of each kind have; infinite if a kind was not tested."""
    references = np.full(SPINE + 1, np.inf)
    for kind in range(SPINE + 1):
        values = capacities[(kinds == kind) & ~np.isnan(capacities)]
        if values.size:
            references[kind] = np.percentile(values, REFERENCE)
    return references


def _usual(values: Values, best: float) -> float:
    """Return the reference, or what most good tests reach if that is low by it.

    A few senders that are faster than all others lift the capacity of each receiver they meet.
    """
    good = values[values >= GOOD * best]
    if not good.size or best <= 0 or np.median(good) >= best * (1 - usual_spread(values / best)):
        return best
    return float(np.median(good))


def usual_spread(shares: Values) -> float:
    """Return the share that healthy tests may lose, from the spread of the good ones."""
    good = shares[shares >= GOOD]
    if not good.size:
        return LEAST_TOLERANCE
    spread = float(np.median(np.abs(good - np.median(good))))
    return min(MOST_TOLERANCE, max(LEAST_TOLERANCE, SPREADS * spread))


class _Chances:
    """How often tests between healthy parts are as low as a value by chance."""

    def __init__(
        self, tests: PairTests, healthy: Flags, line: Values, *, most_suspected: bool
    ) -> None:
        self._line = line
        self._paths = tests.paths
        self._is_shared = tests.is_shared
        self._values = tests.values
        is_located = (tests.paths >= 0).any(axis=1)
        # All tests that shared links count: the unluckiest healthy hosts are among the suspects.
        self._healthy = [
            np.sort(tests.values[mask])
            for mask in (healthy & ~tests.is_shared, is_located & tests.is_shared)
        ]
        self._parts = np.bincount(tests.kinds, minlength=SPINE + 1)
        self._kinds = tests.kinds
        self._unknown = tests.unknown
        self._tests = tests
        # Where most hosts are suspects, tests alone between the others are the lucky ones: a host
        # is compared with all that do not pass it.
        self._alone = is_located & ~tests.is_shared if most_suspected else None

    @property
    def lucky(self) -> Flags:
        """Which parts have a good test, even if it is only one of many."""
        good = np.append(self._line, np.inf)[self._paths] <= self._values[:, None]
        flags: Flags = _counts(np.where(good, self._paths, -1), len(self._line)) > 0
        return flags

    def weights(self, low: Flags, suspects: Flags) -> Values:
        """Return the weight of each low test, which the suspects on its path share.

        The rarer such a low test is between healthy parts, the higher is its weight: a test that
        shared links with others proves little, one that shared nothing proves much.
        """
        raw = np.zeros(len(low))
        for is_shared in (False, True):
            mask = low & (self._is_shared == is_shared)
            values = self._healthy[int(is_shared)]
            ranks = np.searchsorted(values, self._values[mask], side="right")
            raw[mask] = LEAST_WEIGHT - np.log((ranks + 0.5) / (len(values) + 1))
        several = np.append(suspects, np.False_)[self._paths].sum(axis=1)
        weights: Values = raw / np.maximum(several, 1)
        return weights

    def culprit(self, part: int, tests: Numbers, totals: Numbers) -> Culprit:
        """Compute the chance that a healthy fleet has a part like it.

        That is the probability that none of its tests is above the best of them or, if it has a
        good test, that at most one is; for the tests of a host that shared links, together with the
        probability that they are as close to one another; times the number of such parts.
        """
        good = totals[self._values[totals] >= self._line[part]]
        once = self._once(tests)
        values = self._values[once]
        best = float(values.max())
        if self._kinds[part] == GROUP and self._tests.events is not None:
            bests = _bests_of_groups(self._tests, self._tests.events, part)
            chance = _chance_of_group(part, best, bests) * int(self._parts[GROUP])
            return Culprit(part, best, len(tests), min(1.0, chance))
        shares = self._shares(np.append(once, good), best, part)
        chance = float(np.exp(np.log(shares).sum()))
        if good.size:
            chance *= 1 + float(((1 - shares) / shares).sum())
        crowd = np.sort(values[self._is_shared[once]])[::-1]
        if self._kinds[part] == HOST and crowd.size > 1:
            chance = low_and_close(min(1.0, chance), closeness(crowd, self._healthy[1]))
        alone = once[~self._is_shared[once]]
        if self._unknown and self._kinds[part] == HOST and alone.size:
            chance = max(chance, float(np.exp(np.log(self._shares(alone, best, part)).sum())))
        candidates = self._parts[self._kinds[part]]
        return Culprit(part, best, len(tests), min(1.0, chance * candidates))

    def _once(self, tests: Numbers) -> Numbers:
        """Leave the best of the tests of one pair that shared links.

        A pair that meets again in the same round meets the same traffic.
        """
        best_first = tests[np.argsort(-self._values[tests], kind="stable")]
        pairs = self._paths[best_first, 0] * len(self._line) + self._paths[best_first, 1]
        first = np.zeros(len(tests), dtype=np.bool_)
        first[np.unique(pairs, return_index=True)[1]] = True
        return best_first[first | ~self._is_shared[best_first]]

    def _shares(self, tests: Numbers, value: float, part: int) -> Values:
        """Return the share of comparable tests up to a value, for each test of a part; never 0."""
        samples = list(self._healthy)
        if self._alone is not None and self._kinds[part] == HOST:
            ends = int(self._parts[HOST]) // 2
            foreign = ~np.isin(self._paths[:, :2], (part, (part + ends) % (2 * ends))).any(axis=1)
            samples[0] = np.sort(self._values[self._alone & foreign])
        counts = [int(np.searchsorted(values, value, side="right")) for values in samples]
        share = np.array([(n + 0.5) / (len(v) + 1) for n, v in zip(counts, samples, strict=True)])
        shares: Values = share[self._is_shared[tests].astype(np.int64)]
        return shares


class _Bests(NamedTuple):
    """The best test of each event through each group."""

    values: Values
    groups: Numbers
    alone: Flags


def _bests_of_groups(tests: PairTests, events: Numbers, part: int) -> _Bests:
    """Return the bests of a group, and those of the others in tests that do not pass it.

    Nor do these pass it the other way: a switch that is dead is so in both.
    """
    is_passed = tests.paths == part
    first, ways = int(np.argmax(tests.kinds == GROUP)), int((tests.kinds == GROUP).sum())
    is_met = is_passed | (tests.paths == first + (part - first + ways // 2) % ways)
    other = (tests.kinds[tests.paths] == GROUP) & ~is_met.any(axis=1)[:, None]
    rows, hops = np.nonzero((tests.paths >= 0) & (is_passed | other))
    keys = np.stack([tests.paths[rows, hops], events[rows], ~tests.is_shared[rows]], axis=1)
    groups, place = np.unique(keys, axis=0, return_inverse=True)
    bests = np.zeros(len(groups))
    np.maximum.at(bests, place.ravel(), tests.values[rows])
    return _Bests(bests, groups[:, 0], groups[:, 2] > 0)


def _chance_of_group(part: int, best: float, bests: _Bests) -> float:
    """Return the chance that the best tests through a healthy group are as low.

    Tests through one group at the same time share its links, and meet the same traffic of others
    there: they are one draw from such bests of all other groups, or from those of pairs alone.
    These must be low for themselves, if there are any: others may take a link from all at once.
    """
    chance, by_pairs = 1.0, 0.0
    for alone in (False, True):
        mask = bests.alone == alone
        values = bests.values[mask & (bests.groups == part)]
        other_bests = bests.values[mask & (bests.groups != part)]
        share = min(1.0, (int((other_bests <= best).sum()) + 0.5) / (len(other_bests) + 1))
        good = int((values > best).sum())
        own_chance = share ** (len(values) - good) * (1 + good * (1 - share) / share)
        chance *= own_chance
        by_pairs = own_chance if alone and len(values) else 0.0
    return max(chance, by_pairs)


class _Index:
    """The tests of each part."""

    def __init__(self, paths: Numbers, parts: int) -> None:
        tests, hops = np.nonzero(paths >= 0)
        part = paths[tests, hops]
        self._tests = tests[np.argsort(part, kind="stable")]
        self._ends = np.cumsum(np.bincount(part, minlength=parts))

    def tests_of(self, part: int) -> Numbers:
        tests: Numbers = self._tests[self._ends[part - 1] if part else 0 : self._ends[part]]
        return tests

    def open(self, part: int, mask: Flags) -> Numbers:
        """Return those tests of a part that are wanted."""
        tests = self.tests_of(part)
        return tests[mask[tests]]


def _explain(
    tests: PairTests,
    able: Numbers,
    low: Flags,
    suspects: Flags,
    chances: _Chances,
    crowd: tuple[Flags, float],
) -> tuple[Numbers, list[Culprit], list[Culprit]]:
    """Explain the low tests greedily: each time, by the suspect that explains most.

    It ends when no open test speaks against a suspect. What is still low then stays unexplained:
    both ends of such a test have reached more elsewhere, in tests that other parts explain.
    """
    explained_by = np.full(len(low), -1)
    culprits: list[Culprit] = []
    doubts: list[Culprit] = []
    index = _Index(tests.paths, len(suspects))
    counts = _counts(tests.paths[low], len(suspects)) * suspects
    weights = chances.weights(low, suspects)
    scores = _counts(able, len(suspects), weights)
    accusations = _counts(able[low], len(suspects)) * suspects  # exact, where scores are rounded
    doubt = np.where(chances.lucky, LUCKY, 1.0)
    while accusations.max(initial=0):
        part = _candidate(tests.kinds, np.where(accusations > 0, scores * doubt, 0.0))
        hits = index.open(part, low & (explained_by < 0))
        culprit = chances.culprit(part, hits, index.tests_of(part))
        twins = _twins(tests, hits, counts, part)
        sure = not twins and culprit.chance <= _limit(crowd, hits, culprits)
        if not _of_one_end(tests, hits, part, low & (explained_by < 0)):
            (culprits if sure else doubts).append(culprit._replace(twins=twins))
        else:  # that host is as likely the cause, although it is good at times
            sure, twins = False, ()
        if sure or twins:
            explained_by[hits] = part
            counts -= _counts(tests.paths[hits], len(counts))
            accusations -= _counts(able[hits], len(counts))
            scores -= _counts(able[hits], len(counts), weights[hits])
        for open_tests in (counts, accusations):
            open_tests[[part, *twins]] = 0
            np.maximum(open_tests, 0, out=open_tests)
    for culprit in sorted(doubts, key=lambda c: c.chance):
        hits = index.open(culprit.part, low & (explained_by < 0))
        if not culprit.twins and culprit.chance <= _limit(crowd, hits, culprits):
            doubts.remove(culprit)
            if len(hits) == culprit.tests:
                culprits.append(culprit)
                explained_by[hits] = culprit.part
    return explained_by, culprits, doubts


def _of_one_end(tests: PairTests, hits: Numbers, part: int, open_: Flags) -> bool:
    """Tell whether a host explains all that a link or a group does, and more."""
    if tests.kinds[part] == HOST:
        return False
    return any(
        (ends[hits] == ends[hits[0]]).all() and int(open_[ends == ends[hits[0]]].sum()) > len(hits)
        for ends in tests.paths[:, :2].T
    )


def _limit(crowd: tuple[Flags, float], hits: Numbers, culprits: Sequence[Culprit]) -> float:
    """Return the chance up to which one more part is blamed.

    It is lower if others may have slowed down all low tests that only this part explains.
    """
    mask, limit = crowd
    in_crowd = len(hits) > 0 and bool(mask[hits].all())
    return limit if in_crowd else CHANCE * (len(culprits) + 1)


@overload
def _counts(paths: Numbers, parts: int) -> Numbers: ...
@overload
def _counts(paths: Numbers, parts: int, weights: Values) -> Values: ...
def _counts(paths: Numbers, parts: int, weights: Values | None = None) -> Numbers | Values:
    """Count the tests of each part, or add up their weights."""
    flat = paths.ravel()
    hop_weights = None if weights is None else np.repeat(weights, paths.shape[1])[flat >= 0]
    return np.bincount(flat[flat >= 0], hop_weights, minlength=parts)


def _candidate(kinds: Numbers, scores: Values) -> int:
    """Choose the part that explains most; in a tie, a host before a link before a group."""
    best = np.flatnonzero(scores >= scores.max() * (1 - 1e-9))
    return int(best[np.argmin(kinds[best])])


def _twins(tests: PairTests, hits: Numbers, counts: Numbers, culprit: int) -> tuple[int, ...]:
    """Return the other parts of the same kind that explain exactly the same tests."""
    together = _counts(tests.paths[hits], len(counts))
    twin = (together == len(hits)) & (counts == len(hits)) & (tests.kinds == tests.kinds[culprit])
    return tuple(int(part) for part in np.flatnonzero(twin) if part != culprit)


def rounds_needed(blame: Blame, tests: PairTests) -> int:
    """Estimate how many tests of each direction of a host suffice; 0 if almost all are low."""
    between = tests.values[tests.is_shared] if tests.is_shared.any() else tests.values
    line = blame.references[HOST] * (1 - blame.tolerance)
    share = float((between < line).mean())
    hosts = max(1, int((tests.kinds == HOST).sum()))
    limit = CROWD_CHANCE / 2 if tests.is_shared.all() else CHANCE  # of the smaller of two chances
    for count in range(1, 1000):
        most = share**count + (count * share ** (count - 1) * (1 - share) if count >= MANY else 0)
        if most * hosts <= limit:
            return count
    return 0


def low_and_close(low: float, close: float) -> float:
    """Combine the chance that tests are as low with the chance that they are as close together."""
    product = low * close
    fisher = product * (1 - math.log(product)) if product > 0 else 0.0
    return min(1.0, 2 * min(low, fisher))


def closeness(values: Values, fleet: Values) -> float:
    """Return the chance that draws from a fleet, sorted upwards, are as close to their best."""
    best, rest = values[0], values[1:]
    count = len(rest)
    if not count:
        return 1.0
    up_to = int(np.searchsorted(fleet, best, side="right"))
    ranks = np.searchsorted(fleet, rest, side="left")
    within = np.minimum(1.0, (up_to - ranks + 0.5) / (up_to + 0.5))
    return min(1.0, count * math.exp(float(_log_tails(within).min())))


def _log_tails(shares: Values) -> Values:
    """Bound the chance that k or more of n draws fall into the k-th share, for k from 1 to n.

    That is the binomial probability of k, times the geometric series that bounds those of more (W.
    Feller, An Introduction to Probability Theory, volume 1, section VI.3).
    """
    n = len(shares)
    k = np.arange(1, n + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(k))])  # of factorials
    rest = np.maximum(1 - shares, np.finfo(float).eps)
    ratio = (n - k) * shares / ((k + 1) * rest)
    exact = logs[n] - logs[k] - logs[n - k] + k * np.log(shares) + (n - k) * np.log(rest)
    tails: Values = np.where(ratio < 1, exact - np.log1p(-np.minimum(ratio, 0.999)), 0.0)
    return tails


def log_choose(n: int, k: int) -> float:
    """Return the logarithm of the number of ways to choose k of n."""
    if not 0 <= k <= n:
        return -math.inf
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def blame_together(blame: Blame, tests: PairTests, hosts: int) -> Blame:
    """Blame the first suspects, if as a set they are chance in less than one of 10,000 fleets."""
    suspects = sorted(
        (c for c in blame.doubts if not c.twins and _met_most(tests, c.part, hosts)),
        key=lambda c: (-c.tests, c.capacity),
    )
    parts = len(np.unique(tests.paths[tests.paths >= 0]))
    mask = _tests_of(tests, blame.culprits)
    chances = []
    for count, culprit in enumerate(suspects, len(blame.culprits) + 1):
        mask |= _tests_of(tests, [culprit])
        chances.append(set_chance(mask, blame.low, parts, count))
    if not chances or min(chances) > CROWD_CHANCE:
        return blame
    guilty = suspects[: chances.index(min(chances)) + 1]
    explained_by = blame.explained_by.copy()
    for culprit in guilty:
        mask = _tests_of(tests, [culprit])
        explained_by[mask & blame.low & (explained_by < 0)] = culprit.part
    return blame._replace(
        culprits=(*blame.culprits, *guilty),
        doubts=tuple(c for c in blame.doubts if c not in guilty),
        explained_by=explained_by,
    )


def _met_most(tests: PairTests, part: int, hosts: int) -> bool:
    ends = tests.paths[(tests.paths[:, :2] == part).any(axis=1), :2]
    return len(np.unique(ends[ends != part])) >= MET * (hosts - 1)


def set_chance(mask: Flags, low: Flags, parts: int, count: int) -> float:
    """Return the chance that so many parts have as many low tests, if these fall anywhere.

    The tail of the hypergeometric distribution, times the ways to choose the parts.
    """
    tail = log_tail(len(mask), int(low.sum()), int(mask.sum()), int((mask & low).sum()))
    return math.exp(min(0.0, tail + log_choose(parts, count)))


def _tests_of(tests: PairTests, culprits: Sequence[Culprit]) -> Flags:
    mask = np.zeros(len(tests.values), dtype=np.bool_)
    for culprit in culprits:
        mask |= (tests.paths == culprit.part).any(axis=1)
    return mask


def log_tail(count: int, low: int, sample: int, hits: int) -> float:
    """Return the logarithm of the chance of at least so many hits among the own tests."""
    terms = [
        log_choose(sample, k) + log_choose(count - sample, low - k)
        for k in range(hits, min(sample, low) + 1)
    ]
    most = max(terms)
    return most + math.log(sum(math.exp(t - most) for t in terms)) - log_choose(count, low)


def unstable_parts(
    blame: Blame, tests: PairTests, hosts: Numbers, most: float = CHANCE
) -> Iterator[tuple[int, int, int]]:
    """Find directions of hosts of which some tests are low, more often than by chance.

    Yields:
        A part, with how many partners it was low, and how many partners it was tested with. A pair
        that was repeated counts once: what is between its two ends could be the cause. The one that
        chance explains least comes first; its host's tests say nothing about others any more.
    """
    odd = blame.outliers
    is_shared = tests.is_shared & (tests.paths[:, 0] >= 0)
    counts = np.bincount(hosts[tests.paths[odd & is_shared, :2]].ravel(), minlength=1)
    crowd = is_shared & (hosts[tests.paths[:, :2]] != counts.argmax()).all(axis=1)
    is_crowded = crowd.any() and float(odd[crowd].mean()) > QUIET  # not by one host alone
    quiet = ~tests.is_shared if is_crowded else np.ones_like(tests.is_shared)
    usable = quiet & (blame.explained_by < 0) & (tests.paths[:, 0] >= 0)
    pairs, pair = np.unique(tests.paths[usable, :2], axis=0, return_inverse=True)
    deep = odd & (tests.values < blame.references[HOST] * (1 - DEEP * blame.tolerance))
    is_low = np.zeros(len(pairs), dtype=bool)
    is_low[pair.ravel()[deep[usable]]] = True
    hits = np.bincount(pairs[is_low].ravel(), minlength=len(hosts))
    suspects = {c.part for c in (*blame.culprits, *blame.doubts)}
    candidates = set(np.flatnonzero(hits > 1).tolist()) - suspects  # one partner could be the cause
    culprits: set[int] = set()
    while candidates:
        cases = [(*_instability(pairs, is_low, hosts, part, culprits), part) for part in candidates]
        chance, hit, count, part = min(cases)
        if hit < 2 or chance * len(hosts) > most:  # noqa: PLR2004 - as above
            return
        yield part, hit, count
        candidates.remove(part)
        culprits.add(int(hosts[part]))


def _instability(
    pairs: Numbers, is_low: Flags, hosts: Numbers, part: int, culprits: set[int]
) -> tuple[float, int, int]:
    """Return the chance that good hosts are low with so many partners, the low ones, and all.

    Tests with hosts that were found to be unstable before do not count.
    """
    host = int(hosts[part])
    usable = ~np.isin(hosts[pairs], list(culprits - {host})).any(axis=1)
    own, foreign = usable & (pairs == part).any(axis=1), usable & (hosts[pairs] != host).all(axis=1)
    background = (int(is_low[foreign].sum()) + 0.5) / (int(foreign.sum()) + 1)
    hit, count = int(is_low[own].sum()), int(own.sum())
    return at_least(hit, count, background), hit, count


def at_least(hits: int, count: int, share: float) -> float:
    """Return the binomial probability of at least so many hits."""
    odds, rest = math.log(share), math.log1p(-share)
    tail = (log_choose(count, k) + k * odds + (count - k) * rest for k in range(hits, count + 1))
    return min(1.0, sum(map(math.exp, tail)))
