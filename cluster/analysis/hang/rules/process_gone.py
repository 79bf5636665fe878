"""A process that has ended while others wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.model.hang import Cause

if TYPE_CHECKING:
    from cluster.analysis.hang.situation import Situation

PRECEDENCE = 20


def find_cause(situation: Situation) -> Cause | None:
    """Its process is not there, or does not answer RAS for good."""
    ranks = [view.rank for view in situation.views if view.state in ("gone", "dead")]
    if not ranks:
        return None
    return Cause(
        stragglers=tuple(map(situation.straggler, ranks)),
        stuck=situation.stuck[0] if situation.stuck else None,
        confidence="certain",
        hard=True,
    )
