"""NICs of a host, each in a test of its own, with the path to the nearest GPU."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from cluster.analysis.topology import OLD, speed
from cluster.core.model.logs import Device, Parsed, Topology
from cluster.core.model.network.fleet import LoggedPair, NoValue, PairAssumption, PairLogs
from cluster.fleet.pair_logs import PairResult, pair_logs
from cluster.logs.hosts import nics_of_results
from cluster.runs.import_.devices import SAME_NUMBERS, SEVERAL, DeviceLogs

NO_PATHS = PairAssumption("no_nic_paths")
NEAREST = PairAssumption("nearest_gpu")
OTHER_END = PairAssumption("other_end")


class NicResult(NamedTuple):
    """A result of a tool over one NIC."""

    log: str
    nic: str  # its name, such as `mlx5_0`
    gpu: int | None  # the number of the GPU whose memory was sent; none if it was the host's
    result: Parsed


def read(logs: DeviceLogs) -> PairLogs | None:
    """Join tests over one NIC each, and the topology of one host."""
    results = () if logs.of_hosts else tuple(_results(logs))
    names = [result.nic for result in results]
    if len({*names}) < SEVERAL or not all(names):
        return None
    topology = logs.gpu_matrix
    ends = ((r.nic if r.gpu is None else f"GPU{r.gpu}", r.nic) for r in results)
    values = [PairResult(r.log, pair, r.result) for r, pair in zip(results, ends, strict=True)]
    read_logs = pair_logs(values, logs.metric, logs.series)
    failures: list[LoggedPair] = []
    left_out: list[str] = []
    for log, message in logs.unread:
        (entry,) = nics_of_results("", Path(log.file).name, [1])
        if entry.nic:
            hosts = entry.nic if entry.gpu is None else f"GPU{entry.gpu}", entry.nic
            reason = NoValue(code="failed", text=message.rstrip("."))
            failures.append(LoggedPair(hosts=hosts, value=None, reason=reason, log=log.file))
        else:
            left_out.append(f"{Path(log.file).name}: {message}")
    of_gpus = any(result.gpu is not None for result in results)
    classes = {nic: _class(nic, topology) for nic in names}
    assumptions = [SAME_NUMBERS if of_gpus else NEAREST]
    if strange := [nic for nic in classes if topology and _device(nic, topology) is None]:
        assumptions.append(PairAssumption("unknown_nics", tuple(strange)))
    return PairLogs(
        title=read_logs.title,
        metric=logs.metric,
        pairs=(*(_with_path(pair, classes, topology) for pair in read_logs.pairs), *failures),
        assumptions=(OTHER_END, *(assumptions if topology else [NO_PATHS])),
        left_out=(*left_out, *read_logs.left_out),
        devices="nics",
        sparse=True,  # a NIC may have no test with a GPU
    )


def _results(logs: DeviceLogs) -> Iterator[NicResult]:
    for read_log in logs.readings:
        results = [r for r in read_log.reading.results if r.measurements or r.failures]
        text, file = read_log.log.text, read_log.log.file
        nics = nics_of_results(text, Path(file).name, [result.first for result in results])
        for (nic, gpu), result in zip(nics, results, strict=True):
            yield NicResult(file, nic, gpu, result)


def _with_path(pair: LoggedPair, classes: dict[str, str], topology: Topology | None) -> LoggedPair:
    gpu, nic = pair.hosts
    path = classes[nic]
    if gpu != nic:
        device = _device(nic, topology)
        path = _path_class(topology.path(gpu, device.name)) if topology and device else ""
    return msgspec.structs.replace(pair, path=path)


def _device(nic: str, topology: Topology | None) -> Device | None:
    """Find a NIC by its name in the matrix or in the legend."""
    all_devices = topology.devices if topology else ()
    return next((d for d in all_devices if nic in (d.name, d.model) and not d.is_gpu), None)


def _class(nic: str, topology: Topology | None) -> str:
    """Return the fastest path from a NIC to a GPU; empty if it is not known."""
    device = _device(nic, topology)
    if topology is None or device is None:
        return ""
    paths = [_path_class(topology.path(device.name, d.name)) for d in topology.devices if d.is_gpu]
    return max(paths, key=speed, default="")


def _path_class(path: str) -> str:
    return "" if path == "?" else OLD.get(path, path)
