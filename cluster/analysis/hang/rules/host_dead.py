"""A host that does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.model.hang import Cause

if TYPE_CHECKING:
    from cluster.analysis.hang.situation import Situation

PRECEDENCE = 10


def find_cause(situation: Situation) -> Cause | None:
    """No connection to its host."""
    ranks = [view.rank for view in situation.views if view.state == "unreachable"]
    if not ranks:
        return None
    return Cause(
        stragglers=tuple(map(situation.straggler, ranks)),
        stuck=situation.stuck[0] if situation.stuck else None,
        confidence="likely",
        hard=True,
    )
