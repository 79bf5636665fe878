"""Ranks that call different collectives at the same place of a group."""

from __future__ import annotations

from cluster.analysis.hang.differences import first_difference
from cluster.analysis.hang.situation import Situation
from cluster.core.model.hang import Cause

PRECEDENCE = 40


def find_cause(situation: Situation) -> Cause | None:
    """Find the first number whose name differs; the fewer ranks are the stragglers."""
    differing = first_difference(situation, lambda operation: operation.name)
    if differing is None:
        # ranks that wait for one another in several groups, or for messages
        cycle = [stuck for stuck in situation.stuck if stuck.absent and not situation.root]
        for stuck in situation.stuck:
            for other in situation.stuck:
                awaited, missing = (
                    set(stuck.waiting) & set(other.absent),
                    set(other.waiting) & set(stuck.absent),
                )
                if stuck is not other and awaited and missing:
                    return Cause(
                        stragglers=tuple(map(situation.straggler, sorted(awaited | missing))),
                        stuck=stuck,
                        confidence="likely",
                        usual=stuck.name,
                        other=other.name,
                        hard=situation.repeated,
                    )
        if not cycle:
            return None
        ranks = sorted({rank for stuck in cycle for rank in stuck.absent})
        return situation.cause(ranks, "likely", hard=situation.repeated)
    return Cause(
        stragglers=tuple(map(situation.straggler, differing.ranks)),
        stuck=differing.stuck,
        confidence="certain" if situation.repeated and not differing.even else "likely",
        usual=differing.usual,
        other=differing.other,
        hard=situation.repeated and differing.stuck.has_members,
    )
