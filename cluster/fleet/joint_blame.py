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

from cluster.fleet.blame import CROWD_CHANCE
from cluster.fleet.chances import log_choose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from cluster.fleet.blame import Blame, Culprit, PairTests

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
    parts = len(np.unique(tests.paths[tests.paths >= 0]))
    own = _tests_of(tests, blame.blamed)
    chances = []
    for many, culprit in enumerate(suspects, len(blame.blamed) + 1):
        own |= _tests_of(tests, [culprit])
        chances.append(set_chance(own, blame.low, parts, many))
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


def set_chance(own: Flags, low: Flags, parts: int, many: int) -> float:
    """Return the chance that so many of all parts have as many low tests, if these fall anywhere.

    Args:
        own: the tests of these parts.

    Returns:
        At most 1: the tail of the hypergeometric distribution, times the ways to choose the parts.

    """
    tail = _tail(len(own), int(low.sum()), int(own.sum()), int((own & low).sum()))
    return math.exp(min(0.0, tail + log_choose(parts, many)))


def _tests_of(tests: PairTests, culprits: Sequence[Culprit]) -> Flags:
    found = np.zeros(len(tests.values), dtype=np.bool_)
    for culprit in culprits:
        found |= (tests.paths == culprit.part).any(axis=1)
    return found


def _tail(count: int, low: int, own: int, hits: int) -> float:
    """Return the logarithm of the chance of at least so many hits among the own tests."""
    terms = [
        log_choose(own, k) + log_choose(count - own, low - k)
        for k in range(hits, min(own, low) + 1)
    ]
    most = max(terms)
    return most + math.log(sum(math.exp(t - most) for t in terms)) - log_choose(count, low)
