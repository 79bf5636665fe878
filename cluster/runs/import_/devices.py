"""Values of the GPUs, NICs or NUMA nodes of one host in the logs of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from cluster.core.errors import SpecError
from cluster.core.model.logs import Topology
from cluster.core.model.pair_logs import LoggedPair
from cluster.fleet.gpu_pairs import gpu_pairs, is_gpu_matrix
from cluster.fleet.host_copies import NodeResult, has_host_copies, host_copies
from cluster.fleet.nic_pairs import NicResult, nic_pairs
from cluster.fleet.numa_pairs import is_numa_matrix, numa_pairs
from cluster.logs.nic_names import nics_of_results
from cluster.logs.node_names import nodes_of_results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from cluster.core.model.fleet import PairMetric
    from cluster.core.model.logs import Parsed, Reading
    from cluster.core.model.pair_logs import PairLogs

NAMED = 3  # files in a message
SEVERAL = 2  # NICs, or nodes, from which logs are of the NICs, or nodes, of a host


class LogText(NamedTuple):
    """A log."""

    file: str
    text: str


class ReadLog(NamedTuple):
    """A log, and what a parser read in it."""

    log: LogText
    reading: Reading


class UnreadLog(NamedTuple):
    """A log without a result."""

    log: LogText
    why: str


def copies_of(known: Sequence[ReadLog], metric: PairMetric, series: str) -> PairLogs | None:
    """Read copies between the memory of several NUMA nodes and the GPUs of one host.

    Returns:
        A value of each node with each GPU; none if the logs do not name several nodes.

    Raises:
        SpecError: the logs have several tests.

    """
    found = [one for log in known for one in _copies(log)]
    if metric != "bandwidth" or len({one.node for one in found}) < SEVERAL:
        return None
    return host_copies(found, [result.detail for result in _results(known)], series)


def _copies(one: ReadLog) -> Iterator[NodeResult]:
    """Return the results with copies between host and GPUs that name a NUMA node."""
    results = [result for result in one.reading.results if has_host_copies(result)]
    firsts = [result.first for result in results]
    nodes = nodes_of_results(one.log.text, Path(one.log.file).name, firsts)
    for node, result in zip(nodes, results, strict=True):
        if node is not None:
            yield NodeResult(one.log.file, node, result)


def matrices_of(known: Sequence[ReadLog], metric: PairMetric) -> PairLogs | None:
    """Read the GPUs or NUMA nodes of one host.

    Returns:
        The pairs; none if the logs have no matrix, or values of hosts besides.

    Raises:
        SpecError: several logs have a matrix, or none has the metric.

    """
    of_gpus, of_nodes = _with(known, is_gpu_matrix), _with(known, is_numa_matrix)
    others = [one for one in known if one not in (*of_gpus, *of_nodes)]
    if any(result.measurements for one in others for result in one.reading.results):
        return None
    if of_gpus and of_nodes:
        raise SpecError(
            "Some logs are of GPUs, others of NUMA nodes; one kind is judged at a time.",
            remedy="Name only the logs of one kind.",
        )
    if of_gpus:
        return _of_gpus(of_gpus, known, metric)
    return _of_nodes(of_nodes, known, metric) if of_nodes else None


def _with(known: Iterable[ReadLog], wanted: Callable[[Parsed], bool]) -> list[ReadLog]:
    return [one for one in known if any(map(wanted, one.reading.results))]


def _of_gpus(matrices: Sequence[ReadLog], known: Sequence[ReadLog], metric: str) -> PairLogs:
    """Return the pairs of GPUs of one host; the topology may be in another log."""
    _refuse_several(matrices, "copies between GPUs", "nvidia-smi topo -m")
    if metric != "bandwidth":
        raise SpecError(f"Between GPUs, bandwidth is judged, and no {metric}.")
    return gpu_pairs(_results(known), matrices[0].log.file)


def _of_nodes(
    matrices: Sequence[ReadLog], known: Sequence[ReadLog], metric: PairMetric
) -> PairLogs:
    """Return the pairs of NUMA nodes of one host; the distances may be in another log."""
    _refuse_several(matrices, "the memory of NUMA nodes", "numactl --hardware")
    logs = numa_pairs(_results(known), matrices[0].log.file, metric)
    if not logs.pairs:
        other = "latency" if metric == "bandwidth" else "bandwidth"
        raise SpecError(
            f"The log has no {metric} of the memory of NUMA nodes.",
            remedy=f"Type --metric {other}, or measure it: mlc --{metric}_matrix",
        )
    return logs


def _refuse_several(matrices: Sequence[ReadLog], what: str, tool: str) -> None:
    if len(matrices) > 1:
        names = ", ".join(Path(one.log.file).name for one in matrices[:NAMED])
        raise SpecError(
            f"{len(matrices)} logs have {what}, and one host is judged at a time: {names}.",
            remedy=f"Name one of them, and the log of {tool} of the same host.",
        )


def _results(known: Iterable[ReadLog]) -> list[Parsed]:
    return [result for one in known for result in one.reading.results]


def nics_of(
    known: Sequence[ReadLog],
    unread: Sequence[UnreadLog],
    metric: PairMetric,
    series: str,
) -> PairLogs | None:
    """Read tests over one NIC each, of one host.

    Returns:
        A value of each NIC, or of each NIC with a GPU; none if the logs are not of several NICs.

    Raises:
        SpecError: the logs have several tests, or none has the metric.

    """
    found = [one for log in known for one in _nics(log)]
    if len({one.nic for one in found}) < SEVERAL or not all(one.nic for one in found):
        return None
    details = [result.detail for result in _results(known)]
    matrices = [d for d in details if isinstance(d, Topology)]
    topology = next((m for m in matrices if any(d.is_gpu for d in m.devices)), None)
    logs = nic_pairs(found, topology, metric, series)
    failed, left_out = [], []
    for log, why in unread:
        (named,) = nics_of_results("", Path(log.file).name, [1])
        if named.nic:
            ends = named.nic if named.gpu is None else f"GPU{named.gpu}", named.nic
            failed.append(LoggedPair(hosts=ends, value=None, reason=why.rstrip("."), log=log.file))
        else:
            left_out.append(f"{Path(log.file).name}: {why}")
    return msgspec.structs.replace(
        logs, pairs=(*logs.pairs, *failed), left_out=(*left_out, *logs.left_out)
    )


def _nics(one: ReadLog) -> Iterator[NicResult]:
    """Return the results of a log, each with its NIC; a topology is none."""
    results = [r for r in one.reading.results if r.measurements or r.failures]
    firsts = [result.first for result in results]
    named = nics_of_results(one.log.text, Path(one.log.file).name, firsts)
    for (nic, gpu), result in zip(named, results, strict=True):
        yield NicResult(one.log.file, nic, gpu, result)
