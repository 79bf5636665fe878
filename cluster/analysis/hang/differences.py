"""What ranks do differently in one collective."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import msgspec

from cluster.core.model.hang import Operation, Stuck
from cluster.core.model.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.analysis.hang.situation import Situation


class Difference(Value, frozen=True, kw_only=True):
    """A collective to which ranks bring different values."""

    ranks: tuple[int, ...]  # the fewer ones
    stuck: Stuck  # the collective
    usual: str  # the value of most
    other: str  # of the fewer
    even: bool  # they are as many


def first_difference(
    situation: Situation, value_of: Callable[[Operation], str]
) -> Difference | None:
    """Return the first collective, of a group that is waited in, whose ranks have other values.

    An empty value is one that cannot be compared. What has ended for all was no difference.
    """
    for stuck in situation.stuck:
        values: dict[int, dict[int, str]] = defaultdict(dict)
        names: dict[int, set[str]] = defaultdict(set)
        pending: set[int] = set()
        members = {*stuck.waiting, *stuck.absent, *stuck.ended}
        for view in map(situation.view, sorted(members)):
            for operation in view.operations:
                value = "" if operation.peer >= 0 else value_of(operation)
                if value and operation.group == stuck.group:
                    values[operation.number][view.rank] = value
                    names[operation.number].add(operation.name)
                    if not operation.done:
                        pending.add(operation.number)
        for number in sorted(pending):
            counts = Counter(values[number].values()).most_common()
            if len(counts) == 1:
                continue
            usual = counts[0][0]
            ranks = sorted(rank for rank, value in values[number].items() if value != usual)
            name = min(names[number], key=lambda n: n != usual)
            return Difference(
                ranks=tuple(ranks),
                stuck=msgspec.structs.replace(stuck, number=number, name=name),
                usual=usual,
                other=values[number][ranks[0]],
                even=counts[0][1] == counts[1][1],
            )
    return None
