"""A process that was stopped by a signal or a debugger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.model.hang import Cause

if TYPE_CHECKING:
    from cluster.analysis.hang.situation import Situation

PRECEDENCE = 30


def find_cause(situation: Situation) -> Cause | None:
    """State T of proc(5)."""
    ranks = [view.rank for view in situation.views if view.state == "stopped"]
    if not ranks:
        return None
    return Cause(
        stragglers=tuple(map(situation.straggler, ranks)),
        stuck=situation.stuck[0] if situation.stuck else None,
        confidence="certain",
        hard=True,
    )
