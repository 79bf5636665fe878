"""Tests of pairs as arrays, and the low ones among them."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from cluster.core.model.network.fleet import NO_FIGURE, SHORT, Fleet, PairTest, Way
from cluster.fleet import solver
from cluster.fleet.simulation import FabricLinks, FleetSimulator, max_min_rates

Numbers = NDArray[np.int64]
Values = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Parts(NamedTuple):
    """The parts on the path of each test."""

    paths: Numbers  # of the shape (tests, hops), padded with -1
    kinds: Numbers
    # how many; for endpoint e, part e is its sending direction and part `endpoints + e` its
    # receiving direction
    endpoints: int
    groups: int


def parts_of(source: Numbers, target: Numbers, groups: Numbers, *, directed: bool = True) -> Parts:
    """Return hosts and groups, if routes are not known; one part of each, if the sender is not.

    A group of one endpoint is no part: it would be its twin.
    """
    n, count = len(groups), int(groups.max(initial=0)) + 1
    sizes = np.bincount(groups, minlength=count)
    between = groups[source] != groups[target]
    tx = np.where(between & (sizes[groups[source]] > 1), 2 * n + groups[source], -1)
    far, far_group = (n, count) if directed else (0, 0)
    rx = np.where(between & (sizes[groups[target]] > 1), 2 * n + far_group + groups[target], -1)
    return Parts(
        paths=np.stack([source, far + target, tx, rx], axis=1),
        kinds=np.repeat([solver.HOST, solver.GROUP], [2 * n, 2 * count]),
        endpoints=n,
        groups=count,
    )


def routed_parts(
    fabric_links: FabricLinks, source: Numbers, target: Numbers, paths: Numbers
) -> Parts:
    """Return hosts, groups, links and spine switches, if the links of each test are known.

    Link l of `paths` is part `l - 2 * endpoints + 2 * (endpoints + groups)`; the spine switches
    follow the links.
    """
    n = fabric_links.endpoints
    parts = parts_of(source, target, fabric_links.leaf(np.arange(n)))
    first = len(parts.kinds)
    links = fabric_links.count - 2 * n
    ways = np.where(paths[:, 1:-1] < 0, -1, paths[:, 1:-1] - 2 * n + first)
    top = fabric_links.spine(paths)
    spine = np.where(top < 0, -1, top + first + links)[:, None]
    return Parts(
        paths=np.concatenate([parts.paths, ways, spine], axis=1),
        kinds=np.concatenate(
            [parts.kinds, np.repeat([solver.LINK, solver.SPINE], [links, fabric_links.tops])]
        ),
        endpoints=n,
        groups=parts.groups,
    )


BURST = 1.25  # of what most hosts reach: more comes from memory, and not over the link
LEAST, MOST = 1e-12, 1e18  # bytes per second, or seconds, of any test
BUSY = 0.8  # of the time of a test: from this on, the processor limits it, and not the link
CROWDED = 0.8  # of what a pair reaches alone: below this, it shares the fabric with others
FREE = 0.95  # of what a test reaches alone: above this, others took nothing from it


NO_FLAGS: Flags = np.zeros((2, 0), dtype=np.bool_)


class PairTable(NamedTuple):
    """The tests that were tried, as arrays."""

    tests: tuple[PairTest, ...]
    source: Numbers  # endpoint (`host * nics + nic`) that sent
    target: Numbers
    rates: Values  # bytes per second; for latencies, the usual latency over that of the test
    alone: Flags
    between: Flags
    groups: Numbers
    fleet: Fleet
    # of the shape (2, tests): whether the processor of the source, and that of the target, limited
    # each test
    busy: Flags = NO_FLAGS

    @property
    def hosts(self) -> Numbers:
        """The hosts that sent, and those that received: of the shape (2, tests)."""
        hosts: Numbers = np.stack([self.source, self.target]) // self.fleet.nics
        return hosts

    @property
    def one_group(self) -> bool:
        """Whether it is not known which hosts share a switch."""
        return not self.fleet.foreign and not bool(self.between.any())

    @property
    def is_limited(self) -> Flags:
        """Whether a processor limited each test."""
        source, target = self.busy if self.busy.size else (np.zeros_like(self.alone),) * 2
        return np.logical_or(source, target)


class Diagnosed(NamedTuple):
    """Tests, and the parts that are blamed for the low ones."""

    fleet: Fleet
    table: PairTable
    parts: Parts
    tests: solver.PairTests
    blame: solver.Blame
    routes: FleetSimulator | None = None

    @property
    def suspects(self) -> tuple[solver.Culprit, ...]:
        """What is blamed, then what is undecided."""
        return (*self.blame.culprits, *self.blame.doubts)

    @property
    def reference(self) -> float:
        """What most hosts reach, in the unit of the table's rates."""
        return float(self.blame.references[solver.HOST])

    @property
    def is_unshared(self) -> Flags:
        """Tests from which others took nothing, or of which it is known how much."""
        return ~self.tests.is_shared | (self.routes is not None)

    def line(self, tolerances: float = 1.0) -> float:
        """Return the rate below which a test is low."""
        return self.reference * (1 - tolerances * self.blame.tolerance)

    def is_host(self, part: int) -> bool:
        """Tell whether a part is a direction of a host: these come before groups and links."""
        return part < 2 * self.parts.endpoints

    def host(self, part: int) -> int:
        return part % self.parts.endpoints // self.fleet.nics

    def way(self, part: int) -> str:
        """Return the direction of a host that a part is."""
        return "rx" if part >= self.parts.endpoints else "tx"


def believable(tests: Sequence[PairTest]) -> tuple[PairTest, ...]:
    """Bound the values, so that no ratio overflows; what is no rate and no time is missing.

    Where a process was short of time, and nothing failed, nothing arrived as nobody looked.
    """
    return tuple(
        msgspec.structs.replace(test, value=None, reason=SHORT)
        if test.value == 0 and not test.why and max(test.source_busy, test.target_busy) >= BUSY
        else test
        if not test.value or LEAST <= test.value <= MOST
        else msgspec.structs.replace(test, value=min(MOST, max(LEAST, test.value)))
        if 0 < test.value < math.inf
        else msgspec.structs.replace(test, value=None, reason=NO_FIGURE.format(test.value))
        for test in tests
    )


def pair_table(fleet: Fleet, tests: Sequence[PairTest]) -> PairTable:
    """Put tests into arrays.

    Latencies are inverted, so that more is better, and relative to the usual latency of their kind:
    inside a group or between groups.
    """
    tests = tuple(test for test in tests if test.value is not None)
    nics = fleet.nics
    source = np.array([t.source * nics + t.nic for t in tests], dtype=np.int64)
    target = np.array([t.target * nics + t.nic for t in tests], dtype=np.int64)
    groups = endpoint_groups(fleet)
    between = groups[source] != groups[target]
    values = np.array([t.value for t in tests], dtype=np.float64)
    if fleet.metric != "bandwidth":
        values = _turned_over(values, between)
    alone = np.array([t.alone for t in tests], dtype=np.bool_)
    ends = source, target
    busy = np.array([[t.source_busy for t in tests], [t.target_busy for t in tests]]) >= BUSY
    busy &= fleet.metric == "bandwidth"  # a process that waits for each message is always busy
    return PairTable(tests, *ends, values, alone, between, groups, fleet, busy)


def endpoint_groups(fleet: Fleet) -> Numbers:
    """Return the group of each endpoint: NIC k of all hosts of a group is a group of its own."""
    hosts = np.unique(np.asarray(fleet.groups, dtype=np.int64), return_inverse=True)[1]
    nics = np.arange(fleet.nics)
    groups: Numbers = (hosts[:, None] * fleet.nics + nics[None, :]).ravel()
    return groups


def _turned_over(values: Values, between: Flags) -> Values:
    rates = np.zeros_like(values)
    for kind in (False, True):
        mask = (between == kind) & (values > 0)
        if mask.any():
            rates[mask] = np.median(values[mask]) / values[mask]
    return rates


def solve_table(table: PairTable, routes: FleetSimulator | None = None) -> Diagnosed:
    """Find the parts to blame for low tests, of which there is at least one.

    If the routes are known, links are parts, as hosts are. It is then also known how much a test
    loses to concurrent tests: one that lost just that is no evidence against the parts on its path.
    """
    if routes is not None:
        return _with_routes(table, routes)
    parts = parts_of(table.source, table.target, table.groups, directed=table.fleet.directed)
    paths = np.where(peers(table)[:, None], -1, parts.paths)
    events = None if table.fleet.foreign else _events(table)
    unknown = table.one_group or _is_crowded_inside(table)
    tests = solver.PairTests(paths, table.rates, _shares(table), parts.kinds, events, unknown)
    parts = parts._replace(paths=paths)
    return _without_half_good_tests(
        _without_limited_tests(Diagnosed(table.fleet, table, parts, tests, solver.solve(tests)))
    )


def _events(table: PairTable) -> Numbers:
    """Number the tests by what they met: those of a round as one, and all of a pair alone as one.

    A pair takes the same links each time.
    """
    rounds = np.array([test.round for test in table.tests], dtype=np.int64)
    pairs = table.source * len(table.groups) + table.target
    return np.where(table.alone, rounds.max(initial=0) + 1 + pairs, rounds)


def peers(table: PairTable) -> Flags:
    """Return the tests of suspects among one another: those at once after the sample alone.

    They tell only whether the suspects share what is slow; what a host reaches is known without.
    """
    rounds = np.array([test.round for test in table.tests], dtype=np.int64)
    first = rounds[table.alone].min(initial=np.iinfo(np.int64).max)
    late: Flags = ~table.alone & (rounds > first) & (not table.fleet.foreign)
    return late


def _without_limited_tests(solution: Diagnosed) -> Diagnosed:
    """Leave out the low tests that a processor limited: they are no evidence against any part.

    Those that are good in spite of that still clear the parts on their path, unless they are faster
    than any link here: a receiver that was late then read what had waited in its memory.
    """
    rates = solution.table.rates
    unbelievable = rates > BURST * solution.reference
    return _with_tests(
        solution, ~(solution.table.is_limited & ((solution.blame.low & (rates > 0)) | unbelievable))
    )


def _without_half_good_tests(solution: Diagnosed) -> Diagnosed:
    """Leave out tests alone that are good beside those at once, and low beside those alone.

    An oversubscribed fabric is slow when all send. What a host reaches alone then clears it only if
    others reach no more alone.
    """
    table = solution.table
    suspects = [c.part for c in solution.suspects]
    clean = table.alone & (table.rates > 0) & ~np.isin(solution.parts.paths, suspects).any(axis=1)
    if not clean.any():
        return solution
    usual = float(np.percentile(table.rates[clean], solver.REFERENCE))
    low = table.alone & (table.rates < usual * (1 - solution.blame.tolerance))
    return _with_tests(solution, ~(low & (table.rates >= solution.line())))


def _with_tests(solution: Diagnosed, usable: Flags) -> Diagnosed:
    """Leave out the tests that tell nothing, and solve again; not if nothing would be left."""
    if usable.all() or not usable.any():
        return solution
    paths = np.where(usable[:, None], solution.parts.paths, -1)
    tests = solution.tests._replace(paths=paths)
    parts = solution.parts._replace(paths=paths)
    return solution._replace(parts=parts, tests=tests, blame=solver.solve(tests))


def _shares(table: PairTable) -> Flags:
    """Tell from which tests others could take bandwidth: all at once, if groups are not known.

    A test in which nothing arrived is not among them: others can slow a test down, not stop it.
    """
    several = (
        bool(table.between.any()) and not table.fleet.foreign and not _is_crowded_inside(table)
    )
    wide = table.between if several else np.ones_like(table.alone)
    return ~table.alone & wide & (table.rates > 0)


def _is_crowded_inside(table: PairTable) -> bool:
    """Tell whether pairs inside groups share links, as in a dragonfly: they are faster alone."""
    has_value = (table.rates > 0) & ~table.is_limited
    inside = table.rates[has_value & ~table.between & ~table.alone]
    alone = table.rates[has_value & table.alone]
    several = bool(inside.size and alone.size)
    return several and bool(np.median(inside) < CROWDED * np.median(alone))


def _with_routes(table: PairTable, routes: FleetSimulator) -> Diagnosed:
    ports = np.array([test.port for test in table.tests], dtype=np.int64)
    paths = routes.paths(table.source, table.target, ports)
    parts = routed_parts(routes.fabric_links, table.source, table.target, paths)
    bound, all_at_once = _expected(table, paths, routes)
    share = table.rates / all_at_once
    tells = (all_at_once >= FREE * bound) | (share < 1 - solver.DEEP * solver.usual_spread(share))
    ways = np.where(tells[:, None], parts.paths, -1)
    tests = solver.PairTests(ways, table.rates, _shares(table), parts.kinds)
    usable = parts._replace(paths=ways)
    return Diagnosed(table.fleet, table, usable, tests, solver.solve(tests), routes)


def _expected(table: PairTable, paths: Numbers, routes: FleetSimulator) -> tuple[Values, Values]:
    """Return what each test would reach in a healthy fabric: alone, and with all of its round."""
    capacities = routes.fabric_links.capacities()
    bounds = np.append(capacities, np.inf)
    rates: Values = bounds[np.where(paths < 0, len(capacities), paths)].min(axis=1)
    together = rates.copy()
    rounds = np.array([test.round for test in table.tests], dtype=np.int64)
    for number in np.unique(rounds[~table.alone]):
        indices = np.flatnonzero((rounds == number) & ~table.alone)
        together[indices] = max_min_rates(paths[indices], capacities)
    return rates, together


def most_common_reason(tests: Iterable[PairTest]) -> str:
    """Return the most frequent reason; empty if there is none."""
    reasons = Counter(test.why for test in tests if test.why)
    return reasons.most_common(1)[0][0] if reasons else ""


def unit_value(solution: Diagnosed, rate: float) -> float:
    """Convert a rate of the solver to the unit of the metric: latencies were inverted."""
    if solution.fleet.metric == "bandwidth":
        return rate
    values = [t.value for t in solution.table.tests if t.value]
    return float(np.median(values)) / rate if rate > 0 else 0.0


def direction_of(ways: Iterable[str], *, directed: bool = True) -> Way:
    """Return `tx`, `rx`, or `both` if there are several; nothing if directions are not known."""
    directions = set(ways)
    if not directed:
        return ""
    return (
        "both"
        if len(directions) > 1
        else "rx"
        if "rx" in directions
        else "tx"
        if directions <= {"tx"}
        else "both"
    )
