"""Impossible values: the unit, the direction or the hardware is not as stated."""

from cluster.analysis.limits.link import BELIEVABLE
from cluster.analysis.verdict.evidence import AboveLimit, Evidence, Mistake
from cluster.analysis.verdict.verdict import is_assumed, judged_points
from cluster.core.model.results.limits import LimitKind
from cluster.core.model.results.measurements import Summary

NETWORKS: tuple[LimitKind, ...] = ("tcp", "udp", "rdma", "efa", "interfaces")
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
    points = judged_points(evidence.summaries, evidence.definitions)
    suspects = [s for s, _ in points if (s.share or 0.0) > BELIEVABLE]
    certain = [s for s in suspects if not is_assumed(s)]
    if not suspects:
        return None
    worst = max(certain or suspects, key=lambda s: s.share or 0.0)
    share = worst.share or 0.0
    if not certain:
        return AboveLimit(summary=worst, confidence="possible")
    guess = next((mistake for off, mistake in MISTAKES if abs(share / off - 1) < NEAR), None)
    is_named = _names_participants(worst, evidence)
    # The interfaces that the log names, if more than were stated explain the share.
    nics = evidence.hardware.nics if evidence.hardware else 0
    used = max((len(log.interfaces) for log in evidence.nccl), default=0)
    if not (0 < nics < used and share <= BELIEVABLE * used / nics):
        used = 0
    return AboveLimit(
        summary=worst,
        confidence="certain" if is_named and not used else "likely",
        mistake=None if used else guess,
        interfaces=used,
    )


def _names_participants(summary: Summary, evidence: Evidence) -> bool:
    """Tell whether the log says on which hosts the ranks were, where the limit depends on it."""
    depends = summary.limit is not None and summary.limit.kind in NETWORKS
    if not depends or "hosts" not in summary.params:
        return True
    results = [result for result in evidence.results if result.hosts and not result.hosts_of_job]
    return bool(results) or not evidence.results


RULES = (above_limit,)
