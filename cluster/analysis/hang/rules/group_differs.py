"""Ranks that know a group by one name, and have different members in it."""

from __future__ import annotations

from collections import Counter

from cluster.analysis.hang.situation import Situation
from cluster.core.model.hang import Cause

PRECEDENCE = 60


def find_cause(situation: Situation) -> Cause | None:
    """Two sets of members that share a rank, of a group that is waited in."""
    of_group = {stuck.group: stuck for stuck in situation.stuck[::-1]}  # the first of each
    for stuck in sorted(of_group.values(), key=situation.stuck.index):
        members = {
            view.rank: group.ranks
            for view in situation.views
            for group in view.groups
            if group.group == stuck.group and view.rank in group.ranks
        }
        usual = Counter(members.values()).most_common(1)
        odd = [
            r for r, ranks in members.items() if ranks != usual[0][0] and {*ranks} & {*usual[0][0]}
        ]
        if odd:
            return Cause(
                stragglers=tuple(map(situation.straggler, odd)),
                stuck=stuck,
                confidence="likely",
                usual_ranks=usual[0][0],
                other_ranks=members[odd[0]],
            )
    return None
