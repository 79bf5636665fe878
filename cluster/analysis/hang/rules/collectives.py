"""What ranks do differently in the collectives that they wait in, and who is absent from one."""

from collections import Counter, defaultdict
from collections.abc import Callable
from math import prod

import msgspec

from cluster.analysis.hang.situation import Situation
from cluster.core.model.hang import Cause, Confidence, Operation, Stuck
from cluster.core.model.value import Value

EQUAL = frozenset(  # those to which each rank must bring as many values as the others
    (
        *("all_reduce", "allreduce", "broadcast", "reduce", "all_gather", "_broadcast_oop"),
        *("_all_gather_base", "all_gather_into_tensor", "reduce_scatter", "_reduce_oop"),
        *("_reduce_scatter_base", "reduce_scatter_tensor", "allreduce_coalesced"),
    )
)


class Difference(Value, frozen=True, kw_only=True):
    """A collective to which ranks bring different values."""

    ranks: tuple[int, ...]  # the fewer ones
    stall: Stuck  # the collective
    usual: str  # the value of most
    other: str  # of the fewer
    even: bool  # they are as many


def order_differs(situation: Situation) -> Cause | None:
    """Different collectives at the same place of a group; the fewer ranks are the stragglers."""
    differing = first_difference(situation, lambda operation: operation.name)
    if differing is None:
        # ranks that wait for one another in several groups, or for messages
        cycle = [stall for stall in situation.stalls if stall.absent and not situation.root]
        for stall in situation.stalls:
            for other in situation.stalls:
                absentees = {*stall.waiting} & {*other.absent}
                missing = {*other.waiting} & {*stall.absent}
                if stall is not other and absentees and missing:
                    return Cause(
                        stragglers=tuple(map(situation.straggler, sorted(absentees | missing))),
                        stuck=stall,
                        confidence="likely",
                        usual=stall.name,
                        other=other.name,
                        hard=situation.is_static,
                    )
        if not cycle:
            return None
        ranks = sorted({rank for stall in cycle for rank in stall.absent})
        return situation.cause(ranks, "likely", hard=situation.is_static)
    is_sure = situation.is_static and not differing.even
    return _cause(situation, differing, "certain" if is_sure else "likely")


def shape_differs(situation: Situation) -> Cause | None:
    """Different sizes or types in one collective, the first that differs."""
    differing = first_difference(situation, _describe_values)
    if differing is None:
        return None
    return _cause(situation, differing, "possible" if differing.even else "likely")


def _describe_values(operation: Operation) -> str:
    """Return how many values of which types; their shape is free."""
    if operation.name not in EQUAL or not operation.sizes:
        return ""
    return f"{sum(map(prod, operation.sizes))} x {' '.join(operation.dtypes)}"


def group_differs(situation: Situation) -> Cause | None:
    """One name of a group, that is waited in, for two sets of members that share a rank."""
    of_group = {stall.group: stall for stall in situation.stalls[::-1]}  # the first of each
    for stall in sorted(of_group.values(), key=situation.stalls.index):
        members = {
            view.rank: group.ranks
            for view in situation.views
            for group in view.groups
            if group.group == stall.group and view.rank in group.ranks
        }
        usual = Counter(members.values()).most_common(1)
        odd = [
            r for r, ranks in members.items() if ranks != usual[0][0] and {*ranks} & {*usual[0][0]}
        ]
        if odd:
            return Cause(
                stragglers=tuple(map(situation.straggler, odd)),
                stuck=stall,
                confidence="likely",
                usual_ranks=usual[0][0],
                other_ranks=members[odd[0]],
            )
    return None


def rank_absent(situation: Situation) -> Cause | None:
    """The ranks at the end of the chain of waiting; unseen ones are less sure."""
    if not situation.root or {*situation.root} & {*situation.stalls[0].unseen}:
        return situation.cause(situation.root, "possible")
    waits = any(situation.view(rank).call for rank in situation.root)  # for one other rank
    sure = situation.is_settled and not waits
    return situation.cause(situation.root, "certain" if sure else "likely")


def link_cut(situation: Situation) -> Cause | None:
    """All have entered the same collective: what is between them, or a device, is at fault."""
    if not situation.stalls or situation.laggards:
        return None
    is_sure = situation.is_settled and situation.complete
    sure: Confidence = "likely" if is_sure else "possible"
    return Cause(stuck=situation.stalls[0], confidence=sure)


def _cause(situation: Situation, differing: Difference, confidence: Confidence) -> Cause:
    return Cause(
        stragglers=tuple(map(situation.straggler, differing.ranks)),
        stuck=differing.stall,
        confidence=confidence,
        usual=differing.usual,
        other=differing.other,
        hard=situation.is_static and differing.stall.has_members,
    )


def first_difference(
    situation: Situation, value_of: Callable[[Operation], str]
) -> Difference | None:
    """Return the first collective, of a group that is waited in, whose ranks have other values.

    An empty value is one that cannot be compared. What has ended for all was no difference.
    """
    for stall in situation.stalls:
        values: dict[int, dict[int, str]] = defaultdict(dict)
        names: dict[int, set[str]] = defaultdict(set)
        pending: set[int] = set()
        members = {*stall.waiting, *stall.absent, *stall.ended}
        for view in map(situation.view, sorted(members)):
            for operation in view.operations:
                value = "" if operation.peer >= 0 else value_of(operation)
                if value and operation.group == stall.group:
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
                stall=msgspec.structs.replace(stall, number=number, name=name),
                usual=usual,
                other=values[number][ranks[0]],
                even=counts[0][1] == counts[1][1],
            )
    return None


RULES = {40: order_differs, 50: shape_differs, 60: group_differs, 100: rank_absent, 110: link_cut}
