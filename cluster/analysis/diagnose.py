"""What may be wrong, by rules: each says what it saw, how sure it is, and how to make sure.

A rule that lacks its evidence says nothing. The rules are in `pitfalls`, one function each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.analysis.pitfalls import gpus, hosts, network, trust

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.analysis.evidence import Evidence, Finding

RULES: tuple[Callable[[Evidence], Finding | None], ...] = (
    *(*trust.RULES, *network.RULES, *gpus.RULES, *hosts.RULES),
)
ORDER = ("certain", "likely", "possible")


def diagnose(evidence: Evidence) -> tuple[Finding, ...]:
    """Name what may be wrong.

    Args:
        evidence: all that is known of a run.

    Returns:
        The findings, the surest first; none if nothing shows.

    """
    found = [finding for rule in RULES if (finding := rule(evidence)) is not None]
    return tuple(sorted(found, key=lambda finding: ORDER.index(finding.confidence)))
