"""A rank that cannot write, as a file system is full."""

from __future__ import annotations

from cluster.analysis.hang.situation import Situation
from cluster.core.model.hang import Cause

PRECEDENCE = 70


def find_cause(situation: Situation) -> Cause | None:
    """It has a file open for writing on a file system without room."""
    ranks = [rank for rank in situation.root if situation.view(rank).full]
    return situation.cause(ranks, "likely")
