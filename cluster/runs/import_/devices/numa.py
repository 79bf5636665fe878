"""NUMA nodes of a host, with the distance between each two."""

from cluster.core.errors import SpecError
from cluster.core.model.logs import NUMA, Parsed, Topology
from cluster.core.model.network.fleet import LoggedPair, PairAssumption, PairLogs, PairMetric
from cluster.runs.import_.devices import DeviceLogs, only_matrix

METRICS: dict[PairMetric, str] = {"bandwidth": "memory_bandwidth", "latency": "memory_latency"}
LOCAL = "10"  # the distance of a node from itself, by definition (ACPI, System Locality Table)
REMOTE = "remote"  # the distance between the only two nodes
CORES = PairAssumption("cores")
NO_DISTANCES = PairAssumption("no_distances")


def is_matrix(result: Parsed) -> bool:
    return any(d.metric in METRICS.values() for d in result.definitions)


def read(logs: DeviceLogs) -> PairLogs | None:
    """Join a matrix of memory and the distances of one host, which may be in another log.

    A pair that was measured several times has each value.
    """
    matrix = only_matrix(logs, "numa", "the memory of NUMA nodes", "numactl --hardware")
    if matrix is None:
        return None
    metric = METRICS.get(logs.metric, "")
    measurements = [m for result in logs.results for m in result.measurements if m.metric == metric]
    names = {f"{NUMA}{m.params[end]}" for m in measurements for end in ("row", "column")}
    pairs = []
    for measurement in measurements:
        hosts = f"{NUMA}{measurement.params['row']}", f"{NUMA}{measurement.params['column']}"
        path = distance(hosts, logs.node_matrix, len(names))
        pairs += [
            LoggedPair(hosts=hosts, value=v, log=matrix.log.file, path=path)
            for v in measurement.values
        ]
    if not pairs:
        other = "latency" if logs.metric == "bandwidth" else "bandwidth"
        raise SpecError(
            f"The log has no {logs.metric} of the memory of NUMA nodes.",
            remedy=f"Type --metric {other}, or measure it: mlc --{logs.metric}_matrix",
        )
    unknown = any(not pair.path for pair in pairs)
    return PairLogs(
        title=f"{logs.metric} of the memory of NUMA nodes",
        metric=logs.metric,
        directed=True,
        pairs=tuple(pairs),
        assumptions=(CORES, *([NO_DISTANCES] if unknown else [])),
        devices="numa",
        sparse=True,  # a node may have no cores
    )


def distance(pair: tuple[str, str], distances: Topology | None, nodes: int) -> str:
    """Return the distance of two nodes such as `NUMA0` and itself: `21`; empty if not known."""
    path = distances.path(*pair) if distances else "?"
    if path.isdecimal():
        return path
    if pair[0] == pair[1]:
        return LOCAL
    return REMOTE if nodes == 2 else ""  # noqa: PLR2004 - there is one distance between two
