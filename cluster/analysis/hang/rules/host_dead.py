"""A host that does not answer."""

from __future__ import annotations

from cluster.analysis.hang.situation import Situation
from cluster.core.model.hang import Cause

PRECEDENCE = 10


def find_cause(situation: Situation) -> Cause | None:
    """No connection to its host."""
    ranks = situation.blocked_in("unreachable")
    if not situation.stuck:
        return situation.cause(ranks, "possible")
    return situation.cause(ranks, "likely", hard=situation.repeated)
