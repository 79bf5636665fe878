"""A host that does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.analysis.hang.situation import Situation
    from cluster.core.model.hang import Cause

PRECEDENCE = 10


def find_cause(situation: Situation) -> Cause | None:
    """No connection to its host."""
    return situation.cause(situation.in_state("unreachable"), "likely", hard=True)
