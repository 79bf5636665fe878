"""A rank that has not entered the collective that others wait in."""

from __future__ import annotations

from cluster.analysis.hang.situation import Situation
from cluster.core.model.hang import Cause

PRECEDENCE = 100


def find_cause(situation: Situation) -> Cause | None:
    """The ranks at the end of the chain of waiting; unseen ones are less sure."""
    if not situation.root or {*situation.root} & {*situation.stuck[0].unseen}:
        return situation.cause(situation.root, "possible")
    waits = any(situation.view(rank).call for rank in situation.root)  # for one other rank
    sure = situation.settled and not waits
    return situation.cause(situation.root, "certain" if sure else "likely")
