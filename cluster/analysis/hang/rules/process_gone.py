"""A process that has ended while others wait for it."""

from __future__ import annotations

from cluster.analysis.hang.situation import Situation
from cluster.core.model.hang import Cause, Confidence

PRECEDENCE = 20


def find_cause(situation: Situation) -> Cause | None:
    """Its process was there and is not, or is not found, or RAS has given it up.

    A rank may also have ended because its work is done: nobody waits for it then.
    """
    ranks = situation.in_state("gone", "dead")
    views = [situation.view(rank) for rank in ranks]
    lost = [view for view in views if view.rank in situation.awaited or view.state == "dead"]
    if lost:
        was_there = all(view.pid and view.state == "gone" for view in lost)
        sure: Confidence = "certain" if was_there else "likely"
        return situation.cause([view.rank for view in lost], sure, hard=True)
    return None if situation.stuck else situation.cause(ranks, "possible")
