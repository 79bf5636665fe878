"""Groups of hosts with short latencies between them, and the chance that they mean nothing.

Pairs are near if their latency lies below the largest gap between sorted latencies. Groups are
claimed only if the gap is wide, if "near" is transitive (a near b, b near c: then a near c), and if
as many near pairs drawn at random would hardly ever be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cluster.core.model.network.placement import NetworkLayer

    Latencies = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    Numbers = NDArray[np.int64]
    Groups = tuple[int, ...]

GAP = 1.04  # between near and far, as a ratio: below it, noise has such gaps
SIDE = 2  # pairs that must lie on each side of it
CONTRADICTIONS = 0.01  # of all pairs that may be within a group and not near
CHANCE = 0.01  # that near pairs at random would be as transitive
DRAWS = 400  # at random, where the chance cannot be counted
COUNTED = 150  # hosts up to which it can: more have more partitions than a float holds
LEAST = 3  # hosts of which two can be nearer than others
NoGroups = Literal["few_pairs", "no_gap", "contradictions", "chance"]


class NearGroups(NamedTuple):
    """Groups of hosts, or why there are none."""

    groups: tuple[int, ...]  # the number of each host's group; empty if none are claimed
    reason: NoGroups | None = None
    gap: float = 1.0  # between near and far pairs, as a ratio
    edge: float = 0.0  # the longest latency of a near pair, in seconds
    contradictions: int = 0
    # that near pairs at random would be as transitive; none if it was not asked for
    chance: float | None = None
    pairs: int = 0  # that have a latency


def near_groups(latency: Latencies) -> NearGroups:
    """Find groups of near hosts by a matrix of seconds; NaN where it is not known."""
    rows, columns = np.triu_indices(len(latency), 1)
    values = latency[rows, columns]
    pairs = np.flatnonzero(~np.isnan(values))
    if len(latency) < LEAST or len(pairs) < 2 * SIDE:
        return NearGroups((), "few_pairs", pairs=len(pairs))
    ranking = np.sort(values[pairs])
    gaps = ranking[SIDE : -SIDE + 1] / ranking[SIDE - 1 : -SIDE]
    index = int(gaps.argmax()) + SIDE - 1
    gap, edge = float(gaps.max()), float(ranking[index])
    if gap < GAP:
        return NearGroups((), "no_gap", gap, edge, pairs=len(pairs))
    is_tested = ~np.isnan(latency)
    near = is_tested & (latency <= edge)
    groups = _components(near)
    wrong = _contradictions(near, is_tested, groups)
    if wrong > CONTRADICTIONS * len(pairs):
        return NearGroups((), "contradictions", gap, edge, wrong, pairs=len(pairs))
    chance = _chance(is_tested, near, wrong)
    if chance > CHANCE:
        return NearGroups((), "chance", gap, edge, wrong, chance, len(pairs))
    return NearGroups(tuple(groups.tolist()), None, gap, edge, wrong, chance, len(pairs))


def unplaced_hosts(latency: Latencies, groups: tuple[int, ...]) -> tuple[int, ...]:
    """Return lone hosts that were not tested with each group of several: they may be near one."""
    labels = np.array(groups, dtype=np.int64)
    sizes = np.bincount(labels) if len(labels) else labels
    large = np.flatnonzero(sizes > 1)
    links = [[bool((~np.isnan(row[labels == group])).any()) for group in large] for row in latency]
    return tuple(
        host for host in range(len(labels)) if sizes[labels[host]] == 1 and not all(links[host])
    )


def layers_of(latency: Latencies, groups: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the groups, then the groups of these groups, and so on; each as a number per host."""
    layers = [groups]
    while True:
        numbers = np.array(layers[-1])
        near = near_groups(_between(latency, numbers))
        if not near.groups:
            return tuple(layers)
        layers.append(tuple(np.array(near.groups)[numbers].tolist()))


def _between(latency: Latencies, groups: Numbers) -> Latencies:
    """Return the median latency between each two groups."""
    count = int(groups.max()) + 1
    medians = np.full((count, count), np.nan)
    for row_group in range(count):
        for other in range(row_group):
            values = latency[np.ix_(groups == row_group, groups == other)]
            if not np.isnan(values).all():
                medians[row_group, other] = medians[other, row_group] = np.nanmedian(values)
    return medians


def _components(near: Flags) -> Numbers:
    """Number the connected hosts, in the order of their first hosts."""
    groups = np.arange(len(near))
    links = near | np.eye(len(near), dtype=np.bool_)
    while True:
        least = np.where(links, groups[None, :], len(near)).min(axis=1)
        if (least == groups).all():
            break
        groups = least[least]
    numbers: Numbers = np.unique(groups, return_inverse=True)[1]
    return numbers


def _contradictions(near: Flags, is_tested: Flags, groups: Numbers) -> int:
    together = groups[:, None] == groups[None, :]
    return int(np.triu(together & is_tested & ~near, 1).sum())


def _chance(is_tested: Flags, near: Flags, wrong: int) -> float:
    """Return the chance that as many near pairs at random have as few contradictions."""
    closing = _closing(is_tested)
    is_tested, near = is_tested[np.ix_(closing, closing)], near[np.ix_(closing, closing)]
    hosts = len(is_tested)
    rows, columns = np.nonzero(np.triu(is_tested, 1))
    pairs = int(np.triu(near, 1).sum())
    whole = len(rows) == hosts * (hosts - 1) // 2
    if whole and not wrong and hosts <= COUNTED:
        return _partitions(hosts, pairs) / math.comb(len(rows), pairs)
    chance = np.random.default_rng(0)
    hits = 0
    for _ in range(DRAWS):
        sample = np.zeros_like(is_tested)
        choice = chance.choice(len(rows), pairs, replace=False)
        sample[rows[choice], columns[choice]] = sample[columns[choice], rows[choice]] = True
        hits += _contradictions(sample, is_tested, _components(sample)) <= wrong
    return (hits + 1) / (DRAWS + 1)


def _closing(is_tested: Flags) -> Numbers:
    """Return the hosts that are left without those tested with one other only, again and again.

    What was tested with one host closes no circle: no near pair there can be contradicted, and
    such pairs would only make it look easy for near pairs at random to be transitive.
    """
    links = is_tested & ~np.eye(len(is_tested), dtype=np.bool_)
    while (loose := links.sum(axis=1) == 1).any():
        links[loose] = links[:, loose] = False
    return np.flatnonzero(links.any(axis=1))


def _partitions(hosts: int, pairs: int) -> int:
    """Count the ways to put hosts into groups that have this many pairs within them."""
    ways = [{0: 1}]  # for the first hosts: number of ways by the number of pairs
    for count in range(1, hosts + 1):
        totals: dict[int, int] = {}
        for size in range(1, count + 1):  # of the group of the last host
            within = size * (size - 1) // 2
            if within > pairs:
                break
            choices = math.comb(count - 1, size - 1)
            for pairs_so_far, number in ways[count - size].items():
                if pairs_so_far + within <= pairs:
                    totals[pairs_so_far + within] = (
                        totals.get(pairs_so_far + within, 0) + choices * number
                    )
        ways.append(totals)
    return ways[hosts].get(pairs, 0)


def near_order(latency: Latencies, groups: tuple[int, ...]) -> tuple[int, ...]:
    """Order hosts so that a ring leaves each group once, and near groups are side by side."""
    if not groups:
        return tuple(range(len(latency)))
    numbers = np.array(groups)
    between = _between(latency, numbers)
    remaining = list(range(1, len(between)))
    order = [0]
    while remaining:
        distances = np.nan_to_num(between[order[-1], remaining], nan=np.inf)
        order.append(remaining.pop(int(distances.argmin())))
    return tuple(int(host) for group in order for host in np.flatnonzero(numbers == group))


def rand_index(first: tuple[int, ...], other: tuple[int, ...]) -> float:
    """Return the share of pairs of hosts that two groupings treat alike."""
    a, b = np.array(first), np.array(other)
    together = (a[:, None] == a[None, :]) == (b[:, None] == b[None, :])
    rows, columns = np.triu_indices(len(a), 1)
    return float(together[rows, columns].mean()) if len(rows) else 1.0


def agreement(groups: Groups, layer: NetworkLayer) -> float | None:
    """Return the Rand index of latency's groups and of a layer, where both are known."""
    hosts = [host for host, group in enumerate(layer.groups) if group is not None]
    if not groups or len(hosts) < 2:  # noqa: PLR2004 - a pair
        return None
    layer_groups = tuple(layer.groups[host] or 0 for host in hosts)
    return rand_index(tuple(groups[host] for host in hosts), layer_groups)


def with_agreement(layer: NetworkLayer, latency: Sequence[Groups]) -> NetworkLayer:
    """Add to a layer how far it agrees with that layer of latency that it agrees with most."""
    shares = [share for partition in latency if (share := agreement(partition, layer)) is not None]
    return msgspec.structs.replace(layer, agreement=max(shares, default=None))


def closest_layer(
    groups: Groups, layers: Sequence[NetworkLayer]
) -> tuple[NetworkLayer | None, float | None]:
    """Return the layer that agrees most with latency's groups, and how far; the first of equals."""
    shares = [(layer, agreement(groups, layer)) for layer in layers]
    comparable = [(layer, share) for layer, share in shares if share is not None]
    return max(comparable, key=lambda pair: pair[1], default=(None, None))


def disagreements(groups: Sequence[int], layer: NetworkLayer) -> Iterator[tuple[int, int]]:
    """Return the pairs of hosts, of known places, that latency and a layer treat differently."""
    for a, group in enumerate(layer.groups):
        for b in range(a + 1, len(groups)):
            other = layer.groups[b]
            comparable = group is not None and other is not None
            if comparable and (groups[a] == groups[b]) != (group == other):
                yield a, b
