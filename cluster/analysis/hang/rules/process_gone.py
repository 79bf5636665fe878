"""A process that has ended while others wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.analysis.hang.situation import Situation
    from cluster.core.model.hang import Cause

PRECEDENCE = 20


def find_cause(situation: Situation) -> Cause | None:
    """Its process is not there, or RAS has given it up.

    A rank may also have ended because its work is done: nobody waits for it then.
    """
    ranks = situation.in_state("gone", "dead")
    awaited = {rank for stuck in situation.stuck for rank in (*stuck.absent, *stuck.unseen)}
    lost = [rank for rank in ranks if rank in awaited or situation.view(rank).state == "dead"]
    if lost:
        return situation.cause(lost, "certain", hard=True)
    return None if situation.stuck else situation.cause(ranks, "possible")
