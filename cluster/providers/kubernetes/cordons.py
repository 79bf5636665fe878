"""Nodes of bad hosts are cordoned with a mark, and only nodes with that mark are uncordoned."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from cluster.core.errors import SpecError
from cluster.providers.kubernetes.api import Api
from cluster.providers.kubernetes.states import Object

RUN, REASON = "cluster-ruler-cordoned-by", "cluster-ruler-cordoned-why"  # annotations


def cordon(api: Api, pods: Collection[str], run: str, reason: str, share: float) -> tuple[str, ...]:
    """Cordon the nodes of pods, and return the node of each; one that is cordoned already stays so.

    Args:
        pods: of the namespace.
        run: whose id is the mark, by which `uncordon` finds them.
        share: of all nodes that may have a mark of any run, at most; one may in any case.

    Raises:
        SpecError: it would be more of them; none was cordoned.
        ClusterError: a node could not be changed; the ones before it have the mark.
    """
    nodes = {node.metadata.name: node for node in api.nodes()}
    targets = tuple(api.pod(name).spec.node_name for name in pods)
    new = [name for name in dict.fromkeys(targets) if not nodes[name].spec.unschedulable]
    marked = [name for name, node in nodes.items() if RUN in node.metadata.annotations]
    most = max(1, int(share * len(nodes)))
    if len({*new, *marked}) > most:
        raise SpecError(
            f"{len(new)} node(s) would be cordoned beside {len(marked)} that have our mark; "
            f"{share:.0%} of the {len(nodes)} nodes are {most}.",
            means="None was cordoned.",
            remedy="Allow more: --at-most 25%; or cordon some by hand: kubectl cordon NODE",
        )
    for name in new:
        _patch(api, nodes[name], unschedulable=True, marks={RUN: run, REASON: reason})
    return targets


def uncordon(api: Api, run: str) -> tuple[str, ...]:
    """Uncordon the nodes that a run has cordoned; return their names."""
    marked = [node for node in api.nodes() if node.metadata.annotations.get(RUN) == run]
    for node in marked:
        _patch(api, node, unschedulable=None, marks={RUN: None, REASON: None})
    return tuple(node.metadata.name for node in marked)


def _patch(
    api: Api, node: Object, *, unschedulable: bool | None, marks: dict[str, str | None]
) -> None:
    """Change a node in one call, which is refused if somebody changed it since it was read."""
    version = {"resourceVersion": node.metadata.resource_version}
    patch = {
        "metadata": {**version, "annotations": marks},
        "spec": {"unschedulable": unschedulable},
    }
    api.patch_node(node.metadata.name, msgspec.json.encode(patch).decode())
