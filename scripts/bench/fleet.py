"""How often the check of a fleet is right, on simulated fabrics, beside other methods.

Everything is printed with its seeds; docs/explanation/fleet-method.md shows a run of it.
"""

from __future__ import annotations

import sys
import time
import timeit
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cluster.core.model.network.fabric import Direction, Fabric, Fault
from cluster.fleet.pair_table import parts_of, routed_parts
from cluster.fleet.rounds import between_groups, first_rounds, group_members, tournament
from cluster.fleet.simulation import FleetSimulator, max_min_rates
from cluster.fleet.solver import HOST, PairTests, solve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Values = NDArray[np.float64]

Findings = tuple[set[int], set[int], int]
"""The bad directions, or hosts, and the bad links that a method finds; undecided directions."""
FABRIC = Fabric(leaves=32, hosts=32)
HOSTS = FABRIC.size
LEAF = np.arange(HOSTS) // FABRIC.hosts
GRID = tuple(product((0, 4, 16, 51), (0, 8, 20)))  # bad hosts, bad links
HARDEST = (16, 8)  # with which other methods are compared
WAYS: tuple[Direction, ...] = ("tx", "rx", "both")
SEVERITY = (0.3, 0.93)  # of the rate, that is left
LOW = 0.9  # of the rate of a NIC, below which other methods call a test low
HEALTHY_FLEETS = 100
LONG = 30  # rounds, after which hosts are named although it is not known which share a leaf
TARGET = 0.99  # of precision and recall


class FaultyFleet(NamedTuple):
    """A fleet, and what is wrong with it."""

    simulator: FleetSimulator  # of the fleet
    directions: set[int]  # parts that are bad: host h as sender is h, as receiver HOSTS + h
    links: set[int]  # numbers of the bad links between switches


class Tally:
    """How much of what was planted was found, and how much else was."""

    right = wrong = misses = fleets = 0

    def add(self, faults: set[int], results: set[int]) -> None:
        """Take one fleet."""
        self.fleets += 1
        self.right += len(faults & results)
        self.wrong += len(results - faults)
        self.misses += len(faults - results)

    def shares(self) -> tuple[float, float]:
        """Return precision, of what was blamed, and recall, of what is bad."""
        blames, bad = self.right + self.wrong, self.right + self.misses
        return self.right / blames if blames else 1.0, self.right / bad if bad else 1.0

    def cells(self) -> tuple[str, str, str]:
        """Return precision, recall, and parts blamed wrongly per fleet."""
        precision, recall = self.shares()
        return f"{precision:.4f}", f"{recall:.4f}", f"{self.wrong / max(1, self.fleets):.2f}"


def plant(hosts: int, links: int, seed: int) -> FaultyFleet:
    """Plant bad hosts and links at random."""
    chance = np.random.default_rng([seed, hosts, links])
    faults: list[Fault] = []
    directions: set[int] = set()
    for host in chance.permutation(HOSTS)[:hosts].tolist():
        way = WAYS[int(chance.integers(3))]
        share = float(chance.uniform(*SEVERITY))
        faults.append(Fault(kind="host", number=host, direction=way, share=share))
        directions |= {host} if way != "rx" else set()
        directions |= {HOSTS + host} if way != "tx" else set()
    healthy = FleetSimulator(FABRIC, HOSTS)
    edge = healthy.fabric_links.edge
    numbers: set[int] = set()
    for place in chance.permutation(FABRIC.leaves * FABRIC.spines)[:links].tolist():
        leaf, spine = divmod(place, FABRIC.spines)
        share = float(chance.uniform(*SEVERITY))
        faults.append(Fault(kind="link", number=leaf, part=spine, share=share))
        low, high = np.array([leaf]), np.array([spine])
        numbers |= {int(edge.up(low, high)[0]), int(edge.down(low, high)[0])}
    return FaultyFleet(FleetSimulator(FABRIC, HOSTS, tuple(faults), seed), directions, numbers)


def both_ways(pairs: Numbers) -> tuple[Numbers, Numbers]:
    """Return senders and receivers of both directions."""
    a, b = pairs[:, 0], pairs[:, 1]
    return np.concatenate([a, b]), np.concatenate([b, a])


def test_rounds(
    fleet: FaultyFleet, rounds: Iterable[Numbers], *, alone: bool
) -> tuple[Numbers, Numbers, Values]:
    """Test all pairs of rounds, both directions at once."""
    steps = [both_ways(pairs) for pairs in rounds]
    values = [
        fleet.simulator.rates(*ends, number, alone=alone).values
        for number, ends in enumerate(steps)
    ]
    source, target = (np.concatenate(column) for column in zip(*steps, strict=True))
    return source, target, np.concatenate(values)


def solve_own(
    fleet: FaultyFleet, *, rounds: int = 10, alone: bool = False, by_leaf: bool = True
) -> Findings:
    """Return what our solver blames, and how much it leaves undecided."""
    plan = (
        first_rounds(LEAF.tolist(), rounds)
        if by_leaf
        else between_groups(group_members(LEAF.tolist()), rounds)
    )
    source, target, values = test_rounds(fleet, plan, alone=alone)
    groups = LEAF if by_leaf else np.zeros_like(LEAF)
    parts = parts_of(source, target, groups)
    if alone:
        paths = fleet.simulator.paths(source, target)
        parts = routed_parts(fleet.simulator.fabric_links, source, target, paths)
    is_across = (LEAF[source] != LEAF[target]) & (not alone)
    blame = solve(PairTests(parts.paths, values, is_across, parts.kinds))
    first = 2 * (HOSTS + parts.groups) - 2 * HOSTS
    blamed = {culprit.part for culprit in blame.culprits}
    hosts = {part for part in blamed if part < 2 * HOSTS}
    undecided = sum(1 for culprit in blame.doubts if parts.kinds[culprit.part] == HOST)
    return hosts, {part - first for part in blamed - hosts}, undecided


def two_passes(fleet: FaultyFleet, seed: int, *, is_inside: bool) -> Findings:
    """Pair at random, or inside the leaf; pair each suspect again with one that passed."""
    chance = np.random.default_rng([seed, 5])
    order = chance.permutation(HOSTS)
    if is_inside:
        order = np.concatenate(
            [chance.permutation(leaf) for leaf in np.split(np.arange(HOSTS), 32)]
        )
    suspects = _low_hosts(fleet, order.reshape(-1, 2), 0)
    good_hosts = np.array(sorted(set(range(HOSTS)) - suspects))
    if not len(good_hosts) or not suspects:
        return suspects, set(), 0
    low_hosts = np.array(sorted(suspects))
    partners = []
    for host in low_hosts.tolist():
        near = good_hosts[LEAF[good_hosts] == LEAF[host]] if is_inside else good_hosts
        partners.append(int(chance.choice(near if len(near) else good_hosts)))
    pairs = np.stack([low_hosts, np.array(partners)], axis=1)
    return _low_hosts(fleet, pairs, 1) & suspects, set(), 0


def _low_hosts(fleet: FaultyFleet, pairs: Numbers, number: int) -> set[int]:
    """Return the hosts of pairs of which a direction is low; a partner may be in several pairs."""
    results: set[int] = set()
    rest = pairs
    while len(rest):
        _, first = np.unique(rest[:, 1], return_index=True)
        pairs_of_round = rest[first]
        source, target = both_ways(pairs_of_round)
        values = fleet.simulator.rates(source, target, number).values
        low = (values < LOW * FABRIC.rate).reshape(2, -1).any(axis=0)
        results |= set(pairs_of_round[low].ravel().tolist())
        rest = np.delete(rest, first, axis=0)
        number += 1
    return results


def median_polish(fleet: FaultyFleet) -> Findings:
    """Fit an effect for each sender and receiver by medians; a low effect is a bad direction."""
    source, target, values = test_rounds(fleet, first_rounds(LEAF.tolist(), 10), alone=False)
    rest = np.log(values / FABRIC.rate)
    effects = np.zeros(2 * HOSTS)
    for _ in range(10):
        for offset, ends in ((0, source), (HOSTS, target)):
            order = np.argsort(ends, kind="stable")
            middles = np.median(rest[order].reshape(HOSTS, -1), axis=1)
            effects[offset : offset + HOSTS] += middles
            rest -= middles[ends]
        for part in (slice(0, HOSTS), slice(HOSTS, None)):
            effects[part] -= np.median(effects[part])
    return set(np.flatnonzero(effects < np.log(LOW)).tolist()), set(), 0


def row(*cells: object) -> None:
    """Print a row of a Markdown table."""
    sys.stdout.write("| " + " | ".join(str(cell) for cell in cells) + " |\n")
    sys.stdout.flush()


def header(*cells: str) -> None:
    """Print the head of one."""
    sys.stdout.write("\n")
    row(*cells)
    row(*("---" for _ in cells))


def grid(seeds: int) -> bool:
    """A2: one pair at a time with known routes, and all at once with ECMP; leaves known or not."""
    header(
        "bad hosts", "bad links", "hosts alone: P, R, wrong", "links alone: P, R, wrong",
        "hosts at once: P, R, wrong", f"the same, leaves unknown, {LONG} rounds",
    )  # fmt: skip
    good = True
    for hosts, links in GRID:
        tallies = alone, fabric, crowd, unknown = Tally(), Tally(), Tally(), Tally()
        for seed in range(1, seeds + 1):
            fleet = plant(hosts, links, seed)
            results, found_links, _ = solve_own(fleet, alone=True)
            alone.add(fleet.directions, results)
            fabric.add(fleet.links, found_links)
            crowd.add(fleet.directions, solve_own(fleet)[0])
            unknown.add(fleet.directions, solve_own(fleet, rounds=LONG, by_leaf=False)[0])
        row(hosts, links, *(", ".join(tally.cells()) for tally in tallies))
        good &= all(min(t.shares()) >= TARGET for t in tallies)
    return good


def methods(seeds: int) -> None:
    """The same fleets for all methods: healthy ones, and those of the hardest comparison."""
    header("method", "healthy: wrong per fleet", "16 hosts and 8 links: P, R, wrong", "undecided")
    ways: dict[str, Callable[[FaultyFleet, int], Findings]] = {
        "random pairs, suspects again with a good one": partial(two_passes, is_inside=False),
        "the same inside the leaf": partial(two_passes, is_inside=True),
        "median polish, 2 + 8 rounds": lambda p, _: median_polish(p),
        "cluster, 10 rounds, leaves unknown": lambda p, _: solve_own(p, by_leaf=False),
        "cluster, 30 rounds, leaves unknown": lambda p, _: solve_own(p, rounds=LONG, by_leaf=False),
        "cluster, 2 in the leaf + 8 between": lambda p, _: solve_own(p),
    }
    for name, way in ways.items():
        healthy, bad, doubts = Tally(), Tally(), 0
        for seed in range(1, seeds + 1):
            healthy.add(set(), way(plant(0, 0, seed), seed)[0])
            fleet = plant(*HARDEST, seed)
            results, _, rest = way(fleet, seed)
            by_host = name.startswith(("random", "the same"))
            truth = {part % HOSTS for part in fleet.directions} if by_host else fleet.directions
            bad.add(truth, results)
            doubts += rest
        row(name, healthy.cells()[2], ", ".join(bad.cells()), f"{doubts / seeds:.1f}")


def healthy_fleets() -> bool:
    """Count what is blamed in a hundred healthy fleets, all pairs at once."""
    ways = {"leaves known, 10 rounds": (10, True), "leaves unknown, 10 rounds": (10, False)}
    ways[f"leaves unknown, {LONG} rounds"] = (LONG, False)
    header(f"{HEALTHY_FLEETS} healthy fleets, all at once", "directions blamed", "undecided")
    good = True
    for name, (rounds, by_leaf) in ways.items():
        results = [
            solve_own(plant(0, 0, seed), rounds=rounds, by_leaf=by_leaf)
            for seed in range(1001, 1001 + HEALTHY_FLEETS)
        ]
        blames = sum(len(hosts) for hosts, _, _ in results)
        row(name, blames, f"{sum(rest for _, _, rest in results) / HEALTHY_FLEETS:.2f} per fleet")
        good &= blames == 0
    sys.stdout.write(f"\nseeds 1001 to {1000 + HEALTHY_FLEETS}\n")
    return good


def speeds() -> None:
    """B3 and A5: flows of a round, all rounds, and a solution, in seconds."""
    header("what", "hosts", "seconds (fastest of 5)")
    for leaves in (32, 320):
        fabric = Fabric(leaves=leaves, hosts=32)
        simulator = FleetSimulator(fabric, fabric.size)
        groups = np.arange(fabric.size) // 32
        rounds = list(first_rounds(groups.tolist(), 10))
        source, target = both_ways(rounds[5])
        paths, capacities = simulator.paths(source, target), simulator.fabric_links.capacities()
        flows = timeit.repeat(partial(max_min_rates, paths, capacities), number=1)
        row("flows of a round", fabric.size, f"{min(flows):.4f}")
        steps = [both_ways(pairs) for pairs in rounds]
        values = np.concatenate([simulator.rates(*e, n).values for n, e in enumerate(steps)])
        ends = [np.concatenate(column) for column in zip(*steps, strict=True)]
        parts = parts_of(ends[0], ends[1], groups)
        tests = PairTests(parts.paths, values, groups[ends[0]] != groups[ends[1]], parts.kinds)
        solutions = timeit.repeat(partial(solve, tests), number=1)
        row("solution of 10 rounds", fabric.size, f"{min(solutions):.4f}")
    start = time.perf_counter()
    simulator = FleetSimulator(FABRIC, HOSTS)
    capacities = simulator.fabric_links.capacities()
    for pairs in tournament(HOSTS):
        max_min_rates(simulator.paths(*both_ways(pairs)), capacities)
    row("flows of all 1,023 rounds", HOSTS, f"{time.perf_counter() - start:.2f}")


def checking_fleets(seeds: int) -> None:
    """Print all tables."""
    sys.stdout.write(
        f"{HOSTS} hosts, leaf-spine 32x32, full bisection, static ECMP, noise 1%, 10 rounds, both "
        f"directions at once; rate left {SEVERITY[0]} to {SEVERITY[1]}; seeds 1 to {seeds}\n"
    )
    good = grid(seeds)
    methods(seeds)
    good &= healthy_fleets()
    speeds()
    sys.stdout.write(f"\n{'ok  ' if good else 'MISS'}  precision and recall at least {TARGET}\n")
