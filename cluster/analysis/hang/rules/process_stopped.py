"""A process that was stopped by a signal or a debugger."""

from __future__ import annotations

from cluster.analysis.hang.situation import Situation
from cluster.core.model.hang import Cause

PRECEDENCE = 30


def find_cause(situation: Situation) -> Cause | None:
    """State T of proc(5)."""
    ranks = situation.blocked_in("stopped")
    twice = {view.rank for view in situation.earlier if view.state} >= {*ranks}
    return situation.cause(ranks, "certain" if twice else "likely", hard=twice)
