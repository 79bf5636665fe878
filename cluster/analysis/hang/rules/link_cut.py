"""All have entered a collective, the same, and it does not end."""

from __future__ import annotations

from cluster.analysis.hang.situation import Situation
from cluster.core.model.hang import Cause, Confidence

PRECEDENCE = 110


def find_cause(situation: Situation) -> Cause | None:
    """Nobody is absent: what is between the ranks, or a device, is at fault."""
    if not situation.stuck or situation.awaited:
        return None
    is_sure = situation.settled and situation.complete
    sure: Confidence = "likely" if is_sure else "possible"
    return Cause(stuck=situation.stuck[0], confidence=sure)
