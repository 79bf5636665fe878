"""Nodes that gates drain, each with a mark in its reason: only a node with it is given back."""

from __future__ import annotations

import re
from collections.abc import Collection

from cluster.providers.slurm.client import SlurmClient
from cluster.providers.slurm.node_states import SlurmNode, parse_nodes

MARK = re.compile(r"cluster-gate:(\d+):(bad|measured)")  # the job of the gate, and why


def drain(names: Collection[str], mark: tuple[str, str], why: str = "") -> None:
    """Drain nodes (ClusterError)."""
    nodes, reason = f"nodename={','.join(names)}", f"cluster-gate:{':'.join(mark)} {why}".strip()
    SlurmClient().run(("scontrol", "update", nodes, "state=drain", f"reason={reason}"))


def give_back(mark: tuple[str, ...] = ()) -> list[str]:
    """Undrain the nodes that have a mark of ours, or this one, and no others (ClusterError)."""
    marks = {name: mark_of(node) for name, node in nodes_by_name().items()}
    names = [name for name, own in marks.items() if own and own == (mark or own)]
    if names:
        SlurmClient().run(("scontrol", "update", f"nodename={','.join(names)}", "state=undrain"))
    return names


def mark_of(node: SlurmNode) -> tuple[str, ...]:
    """Return the job of a gate that has drained a node, and why; empty if none has."""
    mark = MARK.match(node.reason) if "DRAIN" in node.flags else None
    return mark.groups() if mark else ()


def nodes_by_name() -> dict[str, SlurmNode]:
    text = SlurmClient().run(("scontrol", "--oneliner", "show", "node")).stdout
    return {node.name: node for node in parse_nodes(text)}
