"""A rank that has not entered the collective that others wait in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.model.hang import Cause

if TYPE_CHECKING:
    from cluster.analysis.hang.situation import Situation

PRECEDENCE = 100


def find_cause(situation: Situation) -> Cause | None:
    """The ranks at the end of the chain of waiting; unseen ones are less sure."""
    if not situation.root:
        return None
    seen = not {*situation.root} & {*situation.stuck[0].unseen}
    timed = any(one.operations for one in situation.views)
    sure = seen and (situation.repeated or timed)
    return Cause(
        stragglers=tuple(map(situation.straggler, situation.root)),
        stuck=situation.stuck[0],
        confidence="certain" if sure and situation.repeated else "likely" if sure else "possible",
    )
