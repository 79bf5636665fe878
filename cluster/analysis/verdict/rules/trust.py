"""Impossible values: the unit, the direction or the hardware is not as stated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.analysis.limits.link import BELIEVABLE
from cluster.analysis.verdict.evidence import AboveLimit, Evidence, Mistake

if TYPE_CHECKING:
    from cluster.core.model.measurements import Summary

# The factor of each common mistake; a value that is off by about this factor suggests it.
MISTAKES: tuple[tuple[float, Mistake], ...] = (
    (8.0, "bits"),
    (2.0, "both_ways"),
    (2**30 / 1e9, "gib"),
    (2**20 / 1e6, "mib"),
)
NEAR = 0.015  # of a mistake's factor


def above_limit(evidence: Evidence) -> AboveLimit | None:
    """A value is better than possible; one above an assumption proves nothing against the value."""
    above = [s for s in evidence.summaries if (s.share or 0.0) > BELIEVABLE]
    certain = [s for s in above if not _assumes(s)]
    if not above:
        return None
    worst = max(certain or above, key=lambda s: s.share or 0.0)
    share = worst.share or 0.0
    if not certain:
        return AboveLimit(summary=worst, confidence="possible")
    guess = next((what for off, what in MISTAKES if abs(share / off - 1) < NEAR), None)
    return AboveLimit(summary=worst, confidence="certain", mistake=guess)


def _assumes(summary: Summary) -> bool:
    return summary.limit is not None and summary.limit.assumption is not None


RULES = (above_limit,)
