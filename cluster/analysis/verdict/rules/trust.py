"""Impossible values: the unit, the direction or the hardware is not as stated."""

from __future__ import annotations

from cluster.analysis.limits.link import BELIEVABLE
from cluster.analysis.verdict.evidence import Evidence, Finding
from cluster.core.units import format_point, format_value

# The factor of each common mistake; a value that is off by about this factor suggests it.
MISTAKES = (
    (8.0, "bits were taken for bytes"),
    (2.0, "both directions were counted, or read and write"),
    (2**30 / 1e9, "GiB were taken for GB"),
    (2**20 / 1e6, "MiB were taken for MB"),
)
NEAR = 0.015  # of a mistake's factor


def above_bound(evidence: Evidence) -> Finding | None:
    """A value is better than possible."""
    above = [
        s
        for s in evidence.summaries
        if s.share is not None and s.share > BELIEVABLE and not s.assumes
    ]
    if not above:
        return _above_what_was_assumed(evidence)
    worst = max(above, key=lambda s: s.share or 0.0)
    share, point = worst.share or 0.0, format_point(worst.params)
    guess = next((f"; {what}?" for off, what in MISTAKES if abs(share / off - 1) < NEAR), "")
    return Finding(
        name="faster than possible",
        evidence=f"{worst.metric}{f' ({point})' if point else ''} is {share:.1%} of its limit, "
        f"{format_value(worst.bound or 0.0, worst.unit)}{guess}",
        confidence="certain",
        remedy="do not believe it: look at its unit and direction, and at the hardware that was "
        "named (--hardware); switches that sum (SHARP) and ENA Express raise limits",
        confirm="the same with another tool on the same path",
    )


def _above_what_was_assumed(evidence: Evidence) -> Finding | None:
    """Name the assumption that a value contradicts: it proves nothing against the value."""
    above = [s for s in evidence.summaries if s.assumes and (s.share or 0.0) > BELIEVABLE]
    if not above:
        return None
    most = max(above, key=lambda s: s.share or 0.0)
    point = format_point(most.params)
    return Finding(
        name="faster than possible, or not as it was assumed",
        evidence=f"{most.metric}{f' ({point})' if point else ''} is {most.share:.1%} of "
        f"{format_value(most.bound or 0.0, most.unit)}, its limit only if {most.assumes}",
        confidence="possible",
        remedy="find out whether that holds, and say what it ran on: --hardware NAME, or words "
        "such as nvlink=300GB/s,nic=100gbit,nics=4, and --hosts",
        confirm="cluster judge again, with what was found out",
    )


RULES = (above_bound,)
