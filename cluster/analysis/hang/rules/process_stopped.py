"""A process that was stopped by a signal or a debugger."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.analysis.hang.situation import Situation
    from cluster.core.model.hang import Cause

PRECEDENCE = 30


def find_cause(situation: Situation) -> Cause | None:
    """State T of proc(5)."""
    return situation.cause(situation.in_state("stopped"), "certain", hard=True)
