"""Who is to blame: known values of the solver."""

import numpy as np
import pytest

from cluster.core.model.network.fabric import Direction, Fault, parse_fabric
from cluster.fleet.pair_table import parts_of
from cluster.fleet.rounds import between_groups, first_rounds, group_members
from cluster.fleet.simulation import FleetSimulator
from cluster.fleet.solver import HOST, LINK, PairTests, part_capacities, solve
from tests.fleet.fleets import RATE, both_ways


def measure(
    faults: tuple[Fault, ...], seed: int = 1, *, grouped: bool = True, rounds: int = 10
) -> PairTests:
    """Test 256 hosts on 16 leaves, all at once."""
    fabric = parse_fabric("leafspine:16x16", oversubscription=1, routes="ecmp", rate=RATE)
    simulator = FleetSimulator(fabric, 256, faults, seed)
    groups = np.arange(256) // 16
    plan = (
        first_rounds(groups.tolist(), rounds)
        if grouped
        else between_groups(group_members(groups.tolist()), rounds)
    )
    steps = [both_ways(pairs) for pairs in plan]
    values = [simulator.rates(*ends, number).values for number, ends in enumerate(steps)]
    source, target = (np.concatenate(column) for column in zip(*steps, strict=True))
    labels = groups if grouped else np.zeros_like(groups)
    parts = parts_of(source, target, labels)
    shared = groups[source] != groups[target]
    return PairTests(parts.paths, np.concatenate(values), shared, parts.kinds)


def test_a_capacity_is_the_largest_value_and_from_five_on_the_second_largest() -> None:
    paths = np.array([[0, 1], [0, 1], [0, -1], [0, -1], [0, -1]])
    capacities = part_capacities(paths, np.array([1.0, 5.0, 2.0, 9.0, 3.0]), 3)

    assert capacities[:2].tolist() == [5.0, 5.0]
    assert np.isnan(capacities[2])


@pytest.mark.parametrize("seed", range(5))
def test_nobody_is_blamed_in_a_healthy_fleet_although_most_tests_are_low(seed: int) -> None:
    blame = solve(measure((), seed))

    assert blame.low.mean() > 0.3
    assert blame.culprits == ()
    assert blame.doubts == ()


@pytest.mark.parametrize("seed", [17, 51, 64, 99])
def test_nobody_is_blamed_for_contention_where_the_leaves_are_unknown(seed: int) -> None:
    """With these seeds, a host meets contention in each of its rounds; more rounds are needed."""
    blame = solve(measure((), seed, grouped=False))

    assert blame.culprits == ()
    assert blame.doubts


@pytest.mark.parametrize("share", [0.35, 0.6, 0.9])
@pytest.mark.parametrize("way", ["tx", "rx"])
def test_thirty_rounds_suffice_where_the_leaves_are_unknown(way: Direction, share: float) -> None:
    faults = (Fault(kind="host", number=7, direction=way, share=share),)
    blame = solve(measure(faults, grouped=False, rounds=30))

    assert [c.part for c in blame.culprits] == [7 if way == "tx" else 256 + 7]
    assert blame.doubts == ()


def test_tests_that_pile_up_below_a_capacity_are_no_contention() -> None:
    """Ten rounds: the best values of host 7 are within its noise, and no others are there."""
    faults = (Fault(kind="host", number=7, direction="rx", share=0.76),)
    blame = solve(measure(faults, grouped=False))

    assert [c.part for c in blame.culprits] == [256 + 7]
    assert len(blame.doubts) > 1


def test_a_host_is_not_blamed_because_many_others_are() -> None:
    """Ten rounds with contention in all: with this seed, host 209 was unlucky in each of them."""
    bad = range(3, 253, 6)
    faults = tuple(
        Fault(kind="host", number=host, direction="both", share=0.3 + 0.6 * (host % 17) / 17)
        for host in bad
    )
    blamed = {c.part % 256 for c in solve(measure(faults, 38, grouped=False)).culprits}

    assert len(blamed) > 10
    assert blamed <= set(bad)


def test_a_pair_that_meets_again_meets_the_same_traffic() -> None:
    """The same three rounds, ten times: no more is known than after three."""
    pairs = np.array([(a, (a + step) % 4) for a in range(4) for step in (1, 2, 3)])
    parts = parts_of(pairs[:, 0], pairs[:, 1], np.zeros(4, dtype=np.int64))
    values = np.where(pairs[:, 0] == 0, 0.6, 1.0)
    once = PairTests(parts.paths, values, np.ones(12, dtype=np.bool_), parts.kinds)
    again = once._replace(
        paths=np.tile(once.paths, (10, 1)),
        values=np.tile(values, 10),
        is_shared=np.ones(120, dtype=np.bool_),
    )

    assert solve(once).culprits == solve(again).culprits == ()
    assert [c.part for c in solve(again).doubts] == [0]


def test_one_good_test_of_many_counts_against_a_suspect() -> None:
    """Ten ways to have nine low tests and a good one; without the good one, nine have one way."""
    tests = measure((), 17, grouped=False)
    rows = np.flatnonzero(tests.paths[:, 0] == 3)
    tests.values[rows] = RATE * np.array([1.0, *np.linspace(0.30, 0.32, len(rows) - 1)])
    chances = []
    for _ in range(2):
        blame = solve(tests)
        chances += [c.chance for c in (*blame.culprits, *blame.doubts) if c.part == 3]
        tests.paths[rows[0]] = -1

    assert chances[0] > 5 * chances[1]


def test_directions_of_hosts_are_named_although_most_tests_are_low() -> None:
    faults = (
        Fault(kind="host", number=7, direction="rx", share=0.9),
        Fault(kind="host", number=100, direction="tx", share=0.4),
        Fault(kind="host", number=200, direction="both", share=0.6),
    )
    blame = solve(measure(faults))

    assert {c.part for c in blame.culprits} == {256 + 7, 100, 200, 256 + 200}
    assert all(c.chance < 1e-3 for c in blame.culprits)


def test_a_part_that_has_a_good_test_is_never_blamed() -> None:
    """Host 0 is slow to all but one: whoever it is slow to is the reason, or chance."""
    tests = measure((Fault(kind="host", number=0, direction="tx", share=0.5),))
    rows = np.flatnonzero(tests.paths[:, 0] == 0)
    tests.values[rows[:2]] = RATE

    assert 0 not in {c.part for c in solve(tests).culprits}


def test_too_few_rounds_are_said_and_nobody_is_blamed() -> None:
    """Groups unknown: ten rounds leave good hosts that were never alone on their way."""
    blame = solve(measure((), grouped=False))

    assert blame.culprits == ()
    assert blame.doubts


def test_the_ends_of_one_pair_are_twins() -> None:
    parts = parts_of(np.array([0, 1] * 5), np.array([1, 0] * 5), np.zeros(2, dtype=np.int64))
    values = np.array([0.4, 1.0] * 5)
    blame = solve(PairTests(parts.paths, values, np.zeros(10, dtype=np.bool_), parts.kinds))

    assert blame.culprits == ()
    assert [(c.part, c.twins) for c in blame.doubts] == [(0, (3,))]


@pytest.mark.parametrize(("also_low", "blamed"), [((), [83]), ((2,), [])])
def test_a_link_is_not_blamed_for_a_host_that_is_low_elsewhere(
    also_low: tuple[int, ...], blamed: list[int]
) -> None:
    """Both tests of link 83 are of host 0; a third test of host 0 passes another link."""
    pairs = [(host, (host + step) % 40) for host in range(40) for step in range(1, 7)]
    links = [83 if number < 2 else 80 + number % 3 for number in range(len(pairs))]
    paths = np.array([(a, 40 + b, link) for (a, b), link in zip(pairs, links, strict=True)])
    values = np.ones(len(pairs))
    values[[0, 1, *also_low]] = 0.4
    kinds = np.array([HOST] * 80 + [LINK] * 4)
    blame = solve(PairTests(paths, values, np.zeros(len(pairs), dtype=bool), kinds))

    assert [culprit.part for culprit in blame.culprits] == blamed


def test_a_fast_sender_makes_nobody_slow() -> None:
    """Of its two queues one is slow, and one faster than any link, as of 16 hosts of a lab."""
    number, hosts, odd = np.random.default_rng(1), 16, 11
    source, target = np.array([(a, b) for a in range(hosts) for b in range(hosts) if a != b] * 2).T
    values = RATE * (1 + 0.003 * number.standard_normal(len(source)))
    values[source == odd] *= np.where(number.random((source == odd).sum()) < 0.5, 0.25, 1.04)
    parts = parts_of(source, target, np.zeros(hosts, dtype=np.int64))
    again = (source == odd).nonzero()[0].repeat(3)  # a check tests suspects again and again
    order = np.append(np.arange(len(source)), again)
    shared = np.zeros(len(order), dtype=np.bool_)
    blame = solve(PairTests(parts.paths[order], values[order], shared, parts.kinds))

    assert blame.references[HOST] == pytest.approx(RATE, rel=0.01)
    assert blame.culprits == ()
    assert [culprit.part for culprit in blame.doubts] in ([], [odd])
