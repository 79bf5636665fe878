"""Several launches of one command: their spread, and why they may differ.

A launch is the unit: each starts new ranks, and ten thousand values of one launch say little
about the next (T. Hoefler, R. Belli, "Scientific benchmarking of parallel computing systems",
SC15, rule 5; A. Georges et al., "Statistically rigorous Java performance evaluation", OOPSLA 2007).
"""

from collections.abc import Sequence
from typing import Literal

from cluster.core.model.hosts import Facts
from cluster.core.model.measurements import Summary

ENOUGH_FOR_INTERVAL = 6  # launches: the fewest values whose extremes enclose the median at 95 %
UNSTEADY = 0.25  # spread of the launches' medians, from which there is a note about it
Cause = Literal["shared_cores", "virtual_cores", "busy"]


def spread(pooled: Summary) -> float | None:
    """Return the highest minus the lowest median of a result of `pool_launches`.

    It is relative to the median over launches; None of one launch, or if the median is not above 0.
    """
    if pooled.shape is None or pooled.n < 2 or not pooled.median > 0:  # noqa: PLR2004 - two differ
        return None
    return (pooled.shape.maximum - pooled.shape.minimum) / pooled.median


def unsteady(pooled: Sequence[Summary]) -> tuple[Summary, ...]:
    """Return the results of `pool_launches` that differ from launch to launch, the worst first."""
    points = [s for s in pooled if s.shape is not None and (spread(s) or 0.0) > UNSTEADY]
    return tuple(sorted(points, key=lambda summary: -(spread(summary) or 0.0)))


def likeliest_cause(ranks: int, facts: Sequence[Facts]) -> Cause:
    """Return the likeliest reason why launches of one command differ."""
    cores = fewest_cores(facts)
    if cores and ranks > cores:
        return "shared_cores"
    return "virtual_cores" if any(host.tuning.virtual for host in facts) else "busy"


def fewest_cores(facts: Sequence[Facts]) -> int:
    """Return the usable cores of the host with the fewest; 0 if that is not known."""
    return min((host.usable_cores for host in facts), default=0)
