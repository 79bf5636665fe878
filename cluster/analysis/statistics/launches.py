"""Several launches of one command: their spread, and why they may differ.

A launch is the unit: each starts the ranks anew, and ten thousand values of one launch say little
about the next (T. Hoefler, R. Belli, "Scientific benchmarking of parallel computing systems",
SC15, rule 5; A. Georges et al., "Statistically rigorous Java performance evaluation", OOPSLA 2007).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.units import format_point, format_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.core.model.hosts import Facts
    from cluster.core.model.measurements import Summary

ENOUGH_FOR_INTERVAL = 6  # launches: the fewest values whose extremes enclose the median at 95 %
UNSTEADY = 0.25  # spread of the launches' medians, from which there is a note about it
VIRTUAL_CORES = (
    "The host is a virtual machine: its hypervisor may move a virtual processor to another "
    "physical core, and messages between cores that share a cache are several times faster. "
    "Nothing inside the machine shows or prevents that; use a bare-metal or dedicated host for "
    "numbers below a microsecond"
)
SHARED_CORES = (
    "{ranks} ranks share {cores} usable core(s): each launch depends on when a waiting rank gets "
    "its core. Use as many ranks as cores"
)
BUSY = "Other programs on the host, or another placement of the ranks, can cause this"


def spread(pooled: Summary) -> float | None:
    """Return the highest minus the lowest median of a result of `pool_launches`.

    It is relative to the median over launches; None of one launch, or if the median is not above 0.
    """
    if pooled.shape is None or pooled.n < 2 or not pooled.median > 0:  # noqa: PLR2004 - two differ
        return None
    return (pooled.shape.maximum - pooled.shape.minimum) / pooled.median


def launch_notes(
    pooled: Sequence[Summary], launches: int, ranks: int, facts: Sequence[Facts]
) -> Iterator[str]:
    """Return notes on numbers over several launches, pooled by `pool_launches`."""
    if launches < ENOUGH_FOR_INTERVAL:
        yield (
            f"A 95% confidence interval over launches needs {ENOUGH_FOR_INTERVAL} of them: "
            f"--launches {ENOUGH_FOR_INTERVAL}"
        )
    unsteady = [summary for summary in pooled if (spread(summary) or 0.0) > UNSTEADY]
    if not unsteady:
        return
    worst = max(unsteady, key=lambda summary: spread(summary) or 0.0)
    if worst.shape is not None:
        ends = (worst.shape.minimum, worst.shape.maximum)
        low, high = (format_value(end, worst.unit) for end in ends)
        what = " ".join(filter(None, (worst.metric, format_point(worst.params))))
        several = f" in {len(unsteady)} of {len(pooled)} data points" if len(pooled) > 1 else ""
        yield f"Launches differ by more than {UNSTEADY:.0%}{several}: {what} is {low} to {high}."
    yield f"{_cause(ranks, facts)}."


def _cause(ranks: int, facts: Sequence[Facts]) -> str:
    """Name the likeliest reason why launches of one command differ."""
    cores = min((host.usable_cores for host in facts), default=0)
    if cores and ranks > cores:
        return SHARED_CORES.format(ranks=ranks, cores=cores)
    return VIRTUAL_CORES if any(host.tuning.virtual for host in facts) else BUSY
