"""Why latencies show no groups of hosts, in words."""

from __future__ import annotations

from cluster.fleet.proximity import GAP, NearGroups


def no_groups(groups: NearGroups) -> str:
    """Say why there are no groups; empty if there are some."""
    match groups.reason:
        case "few_pairs":
            return f"{'one pair is' if groups.pairs == 1 else f'{groups.pairs} pairs are'} too few"
        case "no_gap":
            return (
                f"the largest gap between latencies is {groups.gap:.3f} x, and noise has up to "
                f"{GAP} x"
            )
        case "contradictions":
            return f"{groups.contradictions} pairs would be in one group and are not near"
        case "chance":
            return (
                "as many near pairs at random would form groups with a chance of "
                f"{groups.chance or 0.0:.2g}"
            )
        case None:
            return ""
