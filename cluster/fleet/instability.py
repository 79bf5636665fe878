"""Finds hosts that are good at times: some of their tests are low, and others are good."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from cluster.fleet.blame import CHANCE, DEEP, HOST
from cluster.fleet.chances import log_choose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from cluster.fleet.blame import Blame, PairTests

    Numbers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

QUIET = 0.05  # unexplained share of concurrent tests, from which they prove nothing about one host


def unstable_parts(
    blame: Blame, tests: PairTests, hosts: Numbers
) -> Iterator[tuple[int, int, int]]:
    """Find directions of hosts of which some tests are low, more often than by chance.

    Yields:
        A part, with how many partners it was low, and how many partners it was tested with. A pair
        that was repeated counts once: what is between its two ends could be the cause. The one that
        chance explains least comes first; its host's tests say nothing about others any more.

    """
    odd = blame.unexplained
    crowded = tests.shared.any() and float(odd[tests.shared].mean()) > QUIET
    quiet = ~tests.shared if crowded else np.ones_like(tests.shared)
    known = quiet & (blame.explained_by < 0) & (tests.paths[:, 0] >= 0)
    met, pair = np.unique(tests.paths[known, :2], axis=0, return_inverse=True)
    deep = odd & (tests.values < blame.references[HOST] * (1 - DEEP * blame.tolerance))
    is_low = np.zeros(len(met), dtype=bool)
    is_low[pair.ravel()[deep[known]]] = True
    hits = np.bincount(met[is_low].ravel(), minlength=len(hosts))
    taken = {c.part for c in (*blame.blamed, *blame.undecided)}
    left = set(np.flatnonzero(hits > 1).tolist()) - taken  # one partner could be the cause
    said: set[int] = set()
    while left:
        found = [(*_instability(met, is_low, hosts, part, said), part) for part in left]
        chance, hit, count, part = min(found)
        if hit < 2 or chance * len(hosts) > CHANCE:  # noqa: PLR2004 - as above
            return
        yield part, hit, count
        left.remove(part)
        said.add(int(hosts[part]))


def _instability(
    met: Numbers, is_low: Flags, hosts: Numbers, part: int, said: set[int]
) -> tuple[float, int, int]:
    """Return the chance that good hosts are low with so many partners, the low ones, and all.

    Tests with hosts that were found to be unstable before do not count.
    """
    own = int(hosts[part])
    told = ~np.isin(hosts[met], list(said - {own})).any(axis=1)
    mine, others = told & (met == part).any(axis=1), told & (hosts[met] != own).all(axis=1)
    background = (int(is_low[others].sum()) + 0.5) / (int(others.sum()) + 1)
    hit, count = int(is_low[mine].sum()), int(mine.sum())
    return _at_least(hit, count, background), hit, count


def _at_least(hits: int, count: int, share: float) -> float:
    """Return the binomial probability of at least so many hits."""
    return sum(
        math.exp(log_choose(count, k) + k * math.log(share) + (count - k) * math.log1p(-share))
        for k in range(hits, count + 1)
    )
