"""Ranks that enter one collective with different sizes or types."""

from __future__ import annotations

from math import prod

from cluster.analysis.hang.differences import first_difference
from cluster.analysis.hang.situation import Situation
from cluster.core.model.hang import Cause, Operation

PRECEDENCE = 50

EQUAL = frozenset(  # those to which each rank must bring as many values as the others
    (
        *("all_reduce", "allreduce", "broadcast", "reduce", "all_gather", "_broadcast_oop"),
        *("_all_gather_base", "all_gather_into_tensor", "reduce_scatter", "_reduce_oop"),
        *("_reduce_scatter_base", "reduce_scatter_tensor", "allreduce_coalesced"),
    )
)


def find_cause(situation: Situation) -> Cause | None:
    """Compare what the ranks brought to the first collective that differs."""
    differing = first_difference(situation, _brought)
    if differing is None:
        return None
    return Cause(
        stragglers=tuple(map(situation.straggler, differing.ranks)),
        stuck=differing.stuck,
        confidence="possible" if differing.even else "likely",
        usual=differing.usual,
        other=differing.other,
        hard=situation.repeated and differing.stuck.has_members,
    )


def _brought(operation: Operation) -> str:
    """Return how many values of which types; their shape is free."""
    if operation.name not in EQUAL or not operation.sizes:
        return ""
    return f"{sum(map(prod, operation.sizes))} x {' '.join(operation.dtypes)}"
