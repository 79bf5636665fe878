"""Groups of hosts by latency: found where they are, and refused where noise made them."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from cluster.fleet.proximity import (
    COUNTED,
    layers_of,
    near_groups,
    near_order,
    rand_index,
    unplaced_hosts,
)

NEAR, FAR = 12.9e-6, 16.2e-6  # of EC2, 8 B, within and between the lowest switches
JITTER = 0.05


def fabric(sizes: list[int], seed: int, near: float = NEAR) -> tuple[tuple[int, ...], np.ndarray]:
    """Return the leaf of each host, in a random order, and latencies: the better of two tests."""
    chance = np.random.default_rng(seed)
    groups = chance.permutation(np.repeat(np.arange(len(sizes)), sizes))
    base = np.where(groups[:, None] == groups[None, :], near, FAR)
    noise = np.exp(JITTER * np.abs(chance.normal(size=(2, len(groups), len(groups)))))
    latency = base * noise.min(axis=0)
    latency = np.minimum(latency, latency.T)
    np.fill_diagonal(latency, np.nan)
    return tuple(groups.tolist()), latency


@pytest.mark.parametrize("seed", range(25))
def test_leaves_are_found(seed: int) -> None:
    leaves, latency = fabric([16, 16, 16, 16], seed)
    result = near_groups(latency)
    assert rand_index(leaves, result.groups) == 1.0
    assert result.gap > 1.04
    assert result.chance is not None
    assert result.chance < 1e-9


@pytest.mark.parametrize("hosts", [8, 16, 64])
@pytest.mark.parametrize("seed", range(25))
def test_a_flat_fabric_has_no_structure(hosts: int, seed: int) -> None:
    result = near_groups(fabric([hosts], seed)[1])
    assert result.groups == ()
    assert result.reason


@pytest.mark.parametrize(
    ("sizes", "ways", "pairs"),
    [
        ([3, 2, 2, 1], 840, 5),  # 8 hosts of one cluster on EC2: accepted
        ([4, 2, 1, 1], 700, 7),  # and 3, 3, 2, which has as many near pairs
    ],
)
def test_few_hosts_are_grouped_if_chance_hardly_would(
    sizes: list[int], ways: int, pairs: int
) -> None:
    leaves, latency = fabric(sizes, 1)
    result = near_groups(latency)
    assert rand_index(leaves, result.groups) == 1.0
    assert result.chance == pytest.approx(ways / math.comb(28, pairs))


def test_two_near_pairs_of_eight_hosts_are_no_structure() -> None:
    """Chance puts two pairs of eight hosts apart from each other more often than not."""
    result = near_groups(fabric([2, 2, 1, 1, 1, 1], 1)[1])
    assert result.groups == ()
    assert result.chance == pytest.approx(210 / math.comb(28, 2))
    assert (result.reason, round(result.chance or 0, 2)) == ("chance", 0.56)


def test_near_must_be_transitive() -> None:
    """A chain of near pairs is no group: its ends are far."""
    latency = np.full((8, 8), FAR)
    for host in range(7):
        latency[host, host + 1] = latency[host + 1, host] = NEAR
    np.fill_diagonal(latency, np.nan)
    result = near_groups(latency)
    assert result.groups == ()
    assert result.reason == "contradictions"
    assert result.contradictions == 28 - 7


def test_untested_pairs_are_no_evidence() -> None:
    leaves, latency = fabric([6, 6, 6], 3)
    chance = np.random.default_rng(3)
    hidden = np.triu(chance.random(latency.shape) < 0.5, 1)
    latency[hidden | hidden.T] = np.nan
    result = near_groups(latency)
    assert rand_index(leaves, result.groups) == 1.0
    assert result.chance is not None
    assert result.chance <= 0.01


def test_hosts_that_were_tested_once_say_nothing_about_chance() -> None:
    """A pair is evidence if others could contradict it: a host with one partner has no others."""
    inside = fabric([3, 3, 1, 1], 2)[1]
    latency = np.full((22, 22), np.nan)
    latency[:8, :8] = inside
    latency[0, 8:] = latency[8:, 0] = FAR
    latency[0, 8] = latency[8, 0] = NEAR
    alone, result = near_groups(inside), near_groups(latency)

    assert result.chance == alone.chance == pytest.approx(350 / math.comb(28, 6))
    assert result.groups[8] == result.groups[0]


def test_a_host_alone_is_placed_if_it_was_tested_with_each_larger_group() -> None:
    """Host 8 met one group only: it may belong to the other; host 9 is far from both."""
    latency = np.full((10, 10), np.nan)
    latency[:8, :8] = fabric([4, 4], 2)[1]
    groups = (*near_groups(latency[:8, :8]).groups, 2, 3)
    for host, peers in ((8, (0,)), (9, (groups.index(0), groups.index(1)))):
        latency[host, list(peers)] = latency[list(peers), host] = FAR

    assert unplaced_hosts(latency, groups) == (8,)
    assert unplaced_hosts(latency, ()) == ()


def test_a_gap_that_noise_has_is_none() -> None:
    result = near_groups(fabric([4, 4], 5, near=FAR / 1.03)[1])
    assert result.groups == ()


@pytest.mark.parametrize("hosts", [0, 1, 2])
def test_too_few_hosts(hosts: int) -> None:
    assert near_groups(np.full((hosts, hosts), np.nan)).reason == "few_pairs"


def test_no_latency_at_all() -> None:
    assert near_groups(np.full((8, 8), np.nan)).reason == "few_pairs"


def test_more_hosts_than_ways_can_be_counted_for() -> None:
    leaves, latency = fabric([40] * 4, 1)
    assert len(leaves) > COUNTED
    result = near_groups(latency)
    assert rand_index(leaves, result.groups) == 1.0


def test_groups_of_groups() -> None:
    pods = np.repeat(np.arange(4), 16)
    leaves = np.repeat(np.arange(16), 4)
    latency = np.where(pods[:, None] == pods[None, :], 2e-6, 3e-6)
    latency = np.where(leaves[:, None] == leaves[None, :], 1e-6, latency)
    np.fill_diagonal(latency, np.nan)
    layers = layers_of(latency, tuple(leaves.tolist()))
    assert layers == (tuple(leaves.tolist()), tuple(pods.tolist()))


def crossings(groups: Sequence[int], order: Sequence[int]) -> int:
    """Count the neighbours in a ring that are in different groups."""
    ring = [groups[host] for host in order]
    return sum(a != b for a, b in zip(ring, ring[1:] + ring[:1], strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_a_ring_in_this_order_leaves_each_group_once(seed: int) -> None:
    leaves, latency = fabric([16, 8, 8, 4], seed)
    order = near_order(latency, near_groups(latency).groups)
    assert sorted(order) == list(range(36))
    assert order[0] == 0  # mpirun runs on the first host
    assert crossings(leaves, order) == 4 <= crossings(leaves, range(36))


@pytest.mark.parametrize("order", [range(12), (0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11)])
def test_an_order_is_never_worse_than_the_given(order: Sequence[int]) -> None:
    """Also if the given order is the best that there is, and without any structure."""
    groups = tuple(int(host >= 6) for host in order)
    latency = np.where(np.array(groups)[:, None] == np.array(groups), NEAR, FAR)
    assert crossings(groups, near_order(latency, groups)) == 2 <= crossings(groups, range(12))
    assert near_order(latency, ()) == tuple(range(12))


def test_a_ring_leaves_each_pod_once_too() -> None:
    chance = np.random.default_rng(5)
    leaves = chance.permutation(np.repeat(np.arange(12), 3))
    pods = leaves // 4
    latency = np.where(pods[:, None] == pods, 2.1e-6, 2.7e-6)
    latency = np.where(leaves[:, None] == leaves, 1.5e-6, latency)
    order = near_order(latency, tuple(leaves.tolist()))
    assert crossings(leaves.tolist(), order) == 12
    assert crossings(pods.tolist(), order) == 3
