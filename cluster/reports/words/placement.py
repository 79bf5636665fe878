"""Which groups of hosts latencies show, and whether the provider agrees, in words."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from cluster.core.model.network.placement import NetworkLayer, ProviderTopology
from cluster.core.text.units import format_value
from cluster.fleet.proximity import GAP, NearGroups, disagreements

NAMED = 10  # sizes of groups, and hosts that the provider places elsewhere
LEAST_CHANCE = 1e-4  # that is reported


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


def nearness_words(near_groups: NearGroups, medians: Sequence[float], strays: int) -> str:
    """Say which groups were found; given the median latencies in a group and between groups."""
    if not near_groups.groups:
        return f"No structure seen: {no_groups(near_groups)}."
    sizes = sorted(Counter(near_groups.groups).values(), reverse=True)
    inside, outside = (format_value(latency, "s") for latency in medians)
    loose = (
        f" {strays} of the single hosts were not tested with each larger group: they may belong "
        "to one."
        if strays
        else ""
    )
    value = near_groups.chance or 0.0
    chance = f"{value:.1g}" if value >= LEAST_CHANCE else f"below {LEAST_CHANCE:g}"
    return (
        f"{len(sizes)} groups, of {_list_sizes(sizes)} hosts: {inside} within, {outside} between "
        f"(gap {near_groups.gap:.3f} x; the chance that it is noise is {chance}).{loose}"
    )


def comparison_words(
    topology: ProviderTopology, closest: NetworkLayer | None, share: float | None
) -> str:
    """Say whether the provider agrees."""
    if not topology.layers:
        return f"Not compared with the provider: {topology.reason}."
    if closest and share is not None:
        return f"The provider's groups by {closest.name} agree on {share:.1%} of the pairs."
    nearest = topology.layers[0]
    if len(nearest.sizes) == 1:
        return f"The provider puts all of them below one {nearest.name}."
    return f"The provider puts {_list_sizes(nearest.sizes)} of them together by {nearest.name}."


def disagreement_words(
    names: Sequence[str], groups: Sequence[int], closest: NetworkLayer | None
) -> tuple[str, ...]:
    """Name the pairs of hosts that latency and the provider's closest layer treat differently."""
    return tuple(
        f"{names[a]} and {names[b]} are near, and the provider says apart"
        if groups[a] == groups[b]
        else f"{names[a]} and {names[b]} are far, and the provider says together"
        for a, b in islice(disagreements(groups, closest) if closest else (), NAMED)
    )


def _list_sizes(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes[:NAMED])) + (", ..." if len(sizes) > NAMED else "")
