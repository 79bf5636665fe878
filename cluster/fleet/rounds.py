"""Rounds of disjoint pairs, in an order that is useful even if the test is stopped early.

First two rounds inside each group (rack, leaf switch, placement group), where a pair shares
nothing but its two hosts; then eight rounds between groups, in each of which every group is paired
with one other; then all pairs that are left.
"""

from __future__ import annotations

from itertools import chain, cycle, islice
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Hosts = NDArray[np.int64]
    Pairs = NDArray[np.int64]

INSIDE, BETWEEN = 2, 8  # rounds, before all pairs that are left


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
    """Return all pairs of hosts, the most useful rounds first.

    Yields:
        Rounds of disjoint pairs; each pair exactly once. They are n - 1 or n where there is one
        group, and n - 1 for an even number of groups of the same even size; other groups need
        more.

    """
    members = group_members(groups)
    n = len(groups)
    if len(members) == 1 or len(members) == n:
        yield from tournament(n)
        return
    met: set[int] = set()
    for pairs in chain(
        _inside(members, INSIDE), between_groups(members, BETWEEN), _rest(members), tournament(n)
    ):
        fresh = _unmet(pairs, met, n)
        met.update(_keys(fresh, n).tolist())
        if len(fresh):
            yield fresh


def first_rounds(groups: Sequence[int], count: int) -> Iterator[Pairs]:
    """Return this many rounds; if all pairs need fewer, they start over."""
    if len(groups) > 1:
        few = list(islice(schedule(groups), count))
        yield from islice(cycle(few), count)


def group_members(groups: Sequence[int]) -> list[Hosts]:
    """Return the hosts of each group."""
    of = np.asarray(groups, dtype=np.int64)
    order = np.argsort(of, kind="stable")
    ends = np.flatnonzero(np.diff(of[order])) + 1
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
        met = [h[r[number]] for h, r in zip(members, rounds, strict=True) if number < len(r)]
        if met:
            yield np.concatenate(met)


def between_groups(members: Sequence[Hosts], count: int) -> Iterator[Pairs]:
    """Return rounds in which each group meets one other, host by host.

    Yields:
        Rounds of disjoint pairs; when two groups meet again, their hosts are shifted by one more.

    """
    meetings = list(islice(tournament(len(members)), count))
    for number in range(count):
        again, which = divmod(number, len(meetings))
        met = [_meet(members[a], members[b], which + again) for a, b in meetings[which]]
        yield np.concatenate(met)


def _meet(one: Hosts, other: Hosts, shift: int) -> Pairs:
    few, many = sorted((one, other), key=len)
    place = (np.arange(len(few)) + shift) % len(many)
    return np.stack([few, many[place]], axis=1)


def _keys(pairs: Pairs, n: int) -> Hosts:
    keys: Hosts = pairs.min(axis=1) * n + pairs.max(axis=1)
    return keys


def _unmet(pairs: Pairs, met: set[int], n: int) -> Pairs:
    """Leave out pairs that have met before."""
    if not met:
        return pairs
    fresh = np.fromiter((k not in met for k in _keys(pairs, n).tolist()), bool, len(pairs))
    left: Pairs = pairs[fresh]
    return left
