"""A process that has ended while others wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.analysis.hang.situation import Situation
    from cluster.core.model.hang import Cause

PRECEDENCE = 20


def find_cause(situation: Situation) -> Cause | None:
    """Its process is not there, or RAS has given it up."""
    return situation.cause(situation.in_state("gone", "dead"), "certain", hard=True)
