"""How launches of one command differ, and why they may, in words."""

from collections.abc import Iterator, Sequence

from cluster.analysis.statistics.launches import (
    ENOUGH_FOR_INTERVAL,
    UNSTEADY,
    Cause,
    Slowdown,
    fewest_cores,
    likeliest_cause,
    unsteady,
)
from cluster.core.model.hosts import Facts
from cluster.core.model.results.measurements import Measurement, Summary
from cluster.core.text.units import format_point, format_value

CAUSES: dict[Cause, str] = {
    "virtual_cores": "The host is a virtual machine: its hypervisor may move a virtual processor "
    "to another physical core, and messages between cores that share a cache are several times "
    "faster. Nothing inside the machine shows or prevents that; use a bare-metal or dedicated host "
    "for numbers below a microsecond",
    "shared_cores": "{ranks} ranks share {cores} usable core(s): each launch depends on when a "
    "waiting rank gets its core. Use as many ranks as cores",
    "busy": "Other programs on the host, or another placement of the ranks, can cause this",
}


def launch_notes(
    medians: Sequence[Summary], launches: int, ranks: int, facts: Sequence[Facts]
) -> Iterator[str]:
    """Return notes on numbers over several launches, pooled by `pool_launches`."""
    if launches < ENOUGH_FOR_INTERVAL:
        yield (
            f"A 95% confidence interval over launches needs {ENOUGH_FOR_INTERVAL} of them: "
            f"--launches {ENOUGH_FOR_INTERVAL}"
        )
    unsteady_summaries = unsteady(medians)
    if not unsteady_summaries or unsteady_summaries[0].shape is None:
        return
    worst, shape = unsteady_summaries[0], unsteady_summaries[0].shape
    low, high = (format_value(end, worst.unit) for end in (shape.minimum, shape.maximum))
    label = " ".join(filter(None, (worst.metric, format_point(worst.params))))
    several = (
        f" in {len(unsteady_summaries)} of {len(medians)} data points" if len(medians) > 1 else ""
    )
    yield f"Launches differ by more than {UNSTEADY:.0%}{several}: {label} is {low} to {high}."
    cause = CAUSES[likeliest_cause(ranks, facts)].format(ranks=ranks, cores=fewest_cores(facts))
    yield f"{cause}."


def slowdown_words(slowdown: Slowdown) -> str:
    """Return how a run had become slower before it was ended."""
    series, ratio = _series_name(slowdown.series), f"{slowdown.ratio:.0f} times as long as those"
    if slowdown.before is None:
        count = f"{slowdown.count} of {len(slowdown.series.values)}"
        figures = f"The last {count} repetitions of {series} took {ratio} before."
    else:
        before = _series_name(slowdown.before)
        figures = f"Repetitions of {series} took {ratio} of {before} suggest."
    return f"{figures} A link or a host became slower while it ran."


def _series_name(series: Measurement) -> str:
    return f"{series.metric} {format_point(series.params)}".strip()
