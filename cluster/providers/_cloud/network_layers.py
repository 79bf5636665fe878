"""From the location of each host to the layers of a cloud's network; pure."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.core.model.placement import NetworkLayer


def network_layers(
    names: Sequence[str], locations: Sequence[Sequence[str]], *, machines: int = 0
) -> tuple[NetworkLayer, ...]:
    """Group hosts by the layers that the cloud names; a location may be empty or cut off."""
    layers = []
    for depth, name in enumerate(names):
        groups = _numbered([_node(location, depth) for location in locations])
        if any(group is not None for group in groups):
            switch = depth < len(names) - machines
            layers.append(NetworkLayer(name=name, groups=groups, switch=switch))
    return tuple(reversed(layers))


def _node(location: Sequence[str], depth: int) -> tuple[str, ...] | None:
    """Return the node of a host with all nodes above it: its id may be unique only below these."""
    if depth >= len(location) or not location[depth]:
        return None
    return tuple(location[: depth + 1])


def _numbered(nodes: Sequence[tuple[str, ...] | None]) -> tuple[int | None, ...]:
    """Number nodes in the order of their first hosts."""
    seen: dict[tuple[str, ...], int] = {}
    return tuple(None if node is None else seen.setdefault(node, len(seen)) for node in nodes)
