"""Copies between the memory of each NUMA node and each GPU of a host, with their distance."""

from pathlib import Path
from typing import NamedTuple

from cluster.core.errors import SpecError
from cluster.core.model.logs import NUMA, Parsed, Topology
from cluster.core.model.network.fleet import LoggedPair, PairAssumption, PairLogs
from cluster.core.model.results.measurements import Measurement
from cluster.logs.hosts import nodes_of_results
from cluster.runs.import_.devices import SAME_NUMBERS, SEVERAL, DeviceLogs
from cluster.runs.import_.devices.numa import distance

MEDIUM = "host to GPU"
NO_PATHS = PairAssumption("no_node_paths")
BOUND = PairAssumption("memory_bound")


class NodeResult(NamedTuple):
    """A result of a tool that used the memory of one NUMA node."""

    log: str
    node: int
    result: Parsed


def _copies(result: Parsed) -> list[Measurement]:
    names = {d.metric for d in result.definitions if d.medium == MEDIUM}
    return [m for m in result.measurements if m.metric in names and "column" in m.params]


def read(logs: DeviceLogs) -> PairLogs | None:
    """Join the copies of one host, a log for each NUMA node, and its topology."""
    results: list[NodeResult] = []
    for log in logs.readings:
        copies = [result for result in log.reading.results if _copies(result)]
        firsts = [result.first for result in copies]
        nodes = nodes_of_results(log.log.text, Path(log.log.file).name, firsts)
        pairs = zip(nodes, copies, strict=True)
        results += [NodeResult(log.log.file, n, result) for n, result in pairs if n is not None]
    count = len({result.node for result in results})
    if logs.metric != "bandwidth" or count < SEVERAL:
        return None
    gpus, distances = logs.gpu_matrix, logs.node_matrix
    cells = [
        (result, str(m.params.get("test", "")), f"GPU{m.params['column']}", value)
        for result in results
        for m in _copies(result.result)
        for value in m.values
    ]
    test = _chosen_test({cell[1] for cell in cells}, logs.series)
    host_pairs = tuple(
        LoggedPair(
            hosts=(f"{NUMA}{cell.node}", gpu),
            value=value,
            log=cell.log,
            path=distance((f"{NUMA}{cell.node}", node), distances, count) if node else "",
        )
        for cell, title, gpu, value in cells
        for node in [_node(gpu, gpus)]
        if title == test
    )
    unknown = any(not pair.path for pair in host_pairs)
    return PairLogs(
        title=f"{test} of nvbandwidth, with the memory of each NUMA node",
        metric="bandwidth",
        directed=True,
        pairs=host_pairs,
        assumptions=(BOUND, NO_PATHS if unknown else SAME_NUMBERS),
        devices="copies",
    )


def _chosen_test(tests: set[str], series: str) -> str:
    fit = sorted(t for t in tests if all(word in t for word in series.lower().split()))
    if len(fit) == 1:
        return fit[0]
    raise SpecError(
        f"The logs have {len(fit) or 'no'} tests of copies between the host and its GPUs"
        f"{series and f' with the words {series!r}'}: {', '.join(fit or sorted(tests))}.",
        remedy=f"Choose one: --series {(fit or sorted(tests))[0]}",
    )


def _node(gpu: str, gpus: Topology | None) -> str:
    """Name the node that a GPU is at; empty if it is not known, or if there are several."""
    numa = next((d.numa for d in gpus.devices if d.name == gpu), "") if gpus else ""
    return f"{NUMA}{numa}" if numa.isdecimal() else ""
