"""Blames several suspects together, by the chance that as many low tests would be all of theirs.

Where any test may have met others' traffic, the low tests of one bad host look like a background
to those of the next. Together they are telling: if L of N tests are low, drawn at random, the
number of low ones among the T tests of some parts is hypergeometric; and there are so many ways to
choose these parts. Suspects are taken in the order in which they explain most. One that met fewer
than half of the others is left undecided: all of its tests may have passed the same slow link.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from cluster.analysis.fleet.blame import CROWD_CHANCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cluster.analysis.fleet.blame import Blame, Culprit, PairTests

    Flags = NDArray[np.bool_]

MOST = 0.5  # of the other hosts, that a suspect must have met


def blame_together(blame: Blame, tests: PairTests, hosts: int) -> Blame:
    """Blame the suspects that together are hardly chance.

    Returns:
        The same; the first suspects are blamed if that set is chance in less than one of 10,000
        fleets.

    """
    suspects = sorted(
        (c for c in blame.undecided if not c.twins and _met_most(tests, c.part, hosts)),
        key=lambda c: (-c.tests, c.capacity),
    )
    chances = [
        set_chance(blame, tests, [*blame.blamed, *suspects[:many]])
        for many in range(1, len(suspects) + 1)
    ]
    if not chances or min(chances) > CROWD_CHANCE:
        return blame
    guilty = suspects[: chances.index(min(chances)) + 1]
    explained = blame.explained_by.copy()
    for culprit in guilty:
        own = _tests_of(tests, [culprit])
        explained[own & blame.low & (explained < 0)] = culprit.part
    return blame._replace(
        blamed=(*blame.blamed, *guilty),
        undecided=tuple(c for c in blame.undecided if c not in guilty),
        explained_by=explained,
    )


def _met_most(tests: PairTests, part: int, hosts: int) -> bool:
    """Tell whether a host was tested with most others."""
    own = tests.paths[(tests.paths[:, :2] == part).any(axis=1), :2]
    return len(np.unique(own[own != part])) >= MOST * (hosts - 1)


def set_chance(blame: Blame, tests: PairTests, culprits: list[Culprit]) -> float:
    """Return the chance that some parts of a fleet have as many low tests, if these fall anywhere.

    Returns:
        At most 1: the tail of the hypergeometric distribution, times the ways to choose the parts.

    """
    own = _tests_of(tests, culprits)
    parts = len(np.unique(tests.paths[tests.paths >= 0]))
    tail = _tail(len(own), int(blame.low.sum()), int(own.sum()), int((own & blame.low).sum()))
    return min(1.0, math.exp(tail + _log_choose(parts, len(culprits))))


def _tests_of(tests: PairTests, culprits: list[Culprit]) -> Flags:
    found = np.zeros(len(tests.values), dtype=np.bool_)
    for culprit in culprits:
        found |= (tests.paths == culprit.part).any(axis=1)
    return found


def _tail(count: int, low: int, own: int, hits: int) -> float:
    """Return the logarithm of the chance of at least so many hits among the own tests."""
    terms = [
        _log_choose(own, k) + _log_choose(count - own, low - k)
        for k in range(hits, min(own, low) + 1)
    ]
    most = max(terms)
    return most + math.log(sum(math.exp(t - most) for t in terms)) - _log_choose(count, low)


def _log_choose(n: int, k: int) -> float:
    if not 0 <= k <= n:
        return -math.inf
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
