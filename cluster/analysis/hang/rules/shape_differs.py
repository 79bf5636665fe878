"""Ranks that enter one collective with different sizes or types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.analysis.hang.differences import first_difference
from cluster.core.model.hang import Cause

if TYPE_CHECKING:
    from cluster.analysis.hang.situation import Situation
    from cluster.core.model.hang import Operation

PRECEDENCE = 50

EQUAL = frozenset(  # those to which each rank must bring as much as the others
    (
        *("all_reduce", "allreduce", "broadcast", "reduce", "all_gather", "allgather", "barrier"),
        *("_all_gather_base", "all_gather_into_tensor", "all_gather_single", "reduce_scatter"),
        *("_reduce_scatter_base", "reduce_scatter_tensor", "reduce_scatter_single"),
        *("all_to_all_single", "_broadcast_oop", "_reduce_oop", "allreduce_coalesced"),
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
        hard=True,
    )


def _brought(one: Operation) -> str:
    if one.name not in EQUAL:
        return ""
    sizes = " ".join("x".join(map(str, size)) or "1" for size in one.sizes)
    return f"{sizes} {' '.join(one.dtypes)}".strip()
