"""A rank that cannot write, as a file system is full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.model.hang import Cause

if TYPE_CHECKING:
    from cluster.analysis.hang.situation import Situation

PRECEDENCE = 70


def find_cause(situation: Situation) -> Cause | None:
    """It has a file open for writing on a file system without room."""
    ranks = [rank for rank in situation.root if situation.view(rank).full]
    if not ranks:
        return None
    return Cause(
        stragglers=tuple(map(situation.straggler, ranks)),
        stuck=situation.stuck[0] if situation.stuck else None,
        confidence="likely",
    )
