"""Rounds of disjoint pairs: each pair once, and the useful ones first."""

from itertools import islice

import numpy as np
import pytest

from cluster.fleet.rounds import first_rounds, schedule, tournament


def test_every_pair_meets_exactly_once_for_2_to_257_hosts() -> None:
    """A1: n - 1 rounds (odd n: n), and no host twice in a round."""
    for n in range(2, 258):
        rounds = np.stack(list(tournament(n)))  # (rounds, pairs of a round, 2)
        first, second = np.sort(rounds.reshape(-1, 2), axis=1).T
        hosts = np.sort(rounds.reshape(len(rounds), -1), axis=1)

        assert len(rounds) == n - 1 + n % 2
        assert len(np.unique(first * n + second)) == len(first) == n * (n - 1) // 2
        assert hosts.shape[1] == n - n % 2
        assert np.all(np.diff(hosts, axis=1) > 0)
        assert (hosts.min(), hosts.max()) == (0, n - 1)


@pytest.mark.parametrize("n", [0, 1])
def test_who_is_alone_has_no_rounds(n: int) -> None:
    assert list(tournament(n)) == []
    assert list(first_rounds([0] * n, 10)) == []


@pytest.mark.parametrize("sizes", [(4, 4, 4, 4), (3, 5), (1, 2, 7), (2, 2), (6,), (1, 1, 1)])
def test_all_pairs_meet_once_whatever_the_groups(sizes: tuple[int, ...]) -> None:
    groups = [group for group, size in enumerate(sizes) for _ in range(size)]
    rounds = list(schedule(groups))
    pairs = np.sort(np.concatenate(rounds), axis=1)
    n = len(groups)

    assert len(np.unique(pairs, axis=0)) == len(pairs) == n * (n - 1) // 2
    assert all(len(np.unique(batch)) == batch.size for batch in rounds)


def test_two_rounds_are_inside_groups_and_eight_between_them() -> None:
    groups = np.arange(1024) // 32
    rounds = list(islice(schedule(groups.tolist()), 10))
    inside = [(groups[batch[:, 0]] == groups[batch[:, 1]]).all() for batch in rounds]

    assert inside == [True] * 2 + [False] * 8
    assert all(batch.size == 1024 for batch in rounds)
    for batch in rounds[2:]:  # each group sends to one other
        meetings = np.unique(groups[batch], axis=0)
        assert len(np.unique(meetings)) == 32
        assert len(meetings) <= 32


def test_few_hosts_begin_again() -> None:
    rounds = [batch.tolist() for batch in first_rounds([0] * 4, 10)]

    assert len(rounds) == 10
    assert rounds[3] == rounds[0]
    assert rounds[0] != rounds[1]


@pytest.mark.parametrize(("groups", "hosts"), [(4, 4), (2, 8), (8, 8), (6, 2)])
def test_equal_groups_need_no_more_rounds_than_a_tournament(groups: int, hosts: int) -> None:
    rounds = list(schedule([host // hosts for host in range(groups * hosts)]))

    assert [len(pairs) for pairs in rounds] == [groups * hosts // 2] * (groups * hosts - 1)
