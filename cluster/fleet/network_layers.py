"""The layers of a network that a provider names, against groups that latency shows; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.fleet.near_groups import rand_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.core.model.placement import NetworkLayer

    Groups = tuple[int, ...]


def agreement(groups: Groups, layer: NetworkLayer) -> float | None:
    """Return the share of pairs that latency and a layer both put together, or both apart.

    Args:
        groups: that latency shows; empty if none.

    Returns:
        The Rand index of the hosts that the layer names; none if there is no pair to compare.

    """
    known = [host for host, group in enumerate(layer.groups) if group is not None]
    if not groups or len(known) < 2:  # noqa: PLR2004 - a pair
        return None
    said = tuple(layer.groups[host] or 0 for host in known)
    return rand_index(tuple(groups[host] for host in known), said)


def compared(layer: NetworkLayer, latency: Sequence[Groups]) -> NetworkLayer:
    """Add to a layer how far it agrees with that layer of latency that it agrees with most.

    Args:
        latency: the groups that it shows, then the groups of these groups, and so on.

    """
    shares = [share for one in latency if (share := agreement(one, layer)) is not None]
    return msgspec.structs.replace(layer, agreement=max(shares, default=None))


def closest_layer(groups: Groups, layers: Sequence[NetworkLayer]) -> NetworkLayer | None:
    """Return the layer that agrees most with groups, the nearest to the hosts of equals.

    Args:
        groups: that latency shows; empty if none.

    Returns:
        The layer; none if there is nothing to compare.

    """
    shares = [(agreement(groups, layer), layer) for layer in layers]
    known = [(share, layer) for share, layer in shares if share is not None]
    return max(known, key=lambda one: one[0], default=(0.0, None))[1]


def disagreements(groups: Groups, layer: NetworkLayer) -> Iterator[tuple[int, int]]:
    """Return the pairs of hosts that latency and a layer treat differently.

    Yields:
        The numbers of both hosts; never of one of which the provider does not say where it is.

    """
    for a, one in enumerate(layer.groups):
        for b in range(a + 1, len(groups)):
            other = layer.groups[b]
            known = one is not None and other is not None
            if known and (groups[a] == groups[b]) != (one == other):
                yield a, b


def switch_groups(layers: Sequence[NetworkLayer]) -> Groups:
    """Return the groups whose pairs share as little of the network as possible.

    Returns:
        The groups below the nearest switches by which at least half of the hosts are with another
        one; a host of which nothing is known is alone. Empty if there are no such switches.

    """
    for layer in layers:
        together = sum(size for size in layer.sizes if size > 1)
        if layer.switch and 2 * together >= len(layer.groups):
            alone = len(layer.sizes)
            return tuple(
                alone + host if group is None else group for host, group in enumerate(layer.groups)
            )
    return ()
