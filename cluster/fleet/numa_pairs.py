"""NUMA nodes of a host in the logs of other tools, with the distance between each two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.model.logs import NUMA, Topology
from cluster.core.model.pair_logs import LoggedPair, PairLogs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.fleet import PairMetric
    from cluster.core.model.logs import Parsed

METRICS: dict[PairMetric, str] = {"bandwidth": "memory_bandwidth", "latency": "memory_latency"}
LOCAL = "10"  # the distance of a node from itself, by definition (ACPI, System Locality Table)
REMOTE = "remote"  # the distance between the only two nodes
CORES = "the cores of the first node of a pair use the memory of the second"
NO_DISTANCES = (
    "how far the nodes are from one another is not known: add the output of numactl --hardware"
)


def is_numa_matrix(result: Parsed) -> bool:
    """Tell whether a result is of the memory of NUMA nodes."""
    return any(d.metric in METRICS.values() for d in result.definitions)


def numa_pairs(results: Sequence[Parsed], log: str, metric: PairMetric) -> PairLogs:
    """Join a matrix of the memory of NUMA nodes and the distances of one host.

    Returns:
        A value of each pair of nodes, and of each node with itself. Of a pair that was measured
        several times, each value.

    """
    wanted = METRICS.get(metric, "")
    found = [m for result in results for m in result.measurements if m.metric == wanted]
    details = [result.detail for result in results]
    nodes = [d for d in details if isinstance(d, Topology) and any(x.is_node for x in d.devices)]
    names = {f"{NUMA}{m.params[end]}" for m in found for end in ("row", "column")}
    pairs = []
    for one in found:
        hosts = f"{NUMA}{one.params['row']}", f"{NUMA}{one.params['column']}"
        path = distance(hosts, nodes[0] if nodes else None, len(names))
        pairs += [LoggedPair(hosts=hosts, value=v, log=log, path=path) for v in one.values]
    unknown = any(not pair.path for pair in pairs)
    return PairLogs(
        title=f"{metric} of the memory of NUMA nodes",
        metric=metric,
        directed=True,
        pairs=tuple(pairs),
        assumptions=(CORES, *([NO_DISTANCES] if unknown else [])),
        devices="numa",
    )


def distance(pair: tuple[str, str], distances: Topology | None, nodes: int) -> str:
    """Return the distance of two nodes.

    Args:
        pair: of nodes, such as `NUMA0`; both may be the same.

    Returns:
        Such as `21`; empty if it is not known.

    """
    known = distances.path(*pair) if distances else "?"
    if known.isdecimal():
        return known
    if pair[0] == pair[1]:
        return LOCAL
    return REMOTE if nodes == 2 else ""  # noqa: PLR2004 - there is one distance between two
