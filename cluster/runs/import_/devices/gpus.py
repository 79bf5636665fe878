"""Pairs of GPUs of a host, with the path between them."""

from cluster.analysis.topology import UNKNOWN
from cluster.analysis.topology.topology import gpu_topology
from cluster.core.errors import SpecError
from cluster.core.model.logs import Parsed
from cluster.core.model.network.fleet import LoggedPair, NoValue, PairAssumption, PairLogs
from cluster.runs.import_.devices import SAME_NUMBERS, DeviceLogs, only_matrix

SLOWER = PairAssumption("slower_direction")
NO_PATHS = PairAssumption("no_gpu_paths")
INFERRED = PairAssumption("inferred_links")
NO_COPY = NoValue(code="no_copy")


def is_matrix(result: Parsed) -> bool:
    return any(d.medium == "GPU to GPU" for d in result.definitions)


def read(logs: DeviceLogs) -> PairLogs | None:
    """Join matrices of bandwidth and the topology of one host, which may be in another log."""
    matrix = only_matrix(logs, "gpus", "copies between GPUs", "nvidia-smi topo -m")
    if matrix is None:
        return None
    if logs.metric != "bandwidth":
        raise SpecError(f"Between GPUs, bandwidth is judged, and no {logs.metric}.")
    copies = [m for result in logs.results if is_matrix(result) for m in result.measurements]
    models = [model for result in logs.results for model in result.devices]
    pairs = gpu_topology(logs.gpu_matrix, copies, models=models).pairs
    rates = [pair.copies.rate or pair.copies.rate_without or None for pair in pairs]
    pairs_read = tuple(
        LoggedPair(
            hosts=(f"GPU{pair.gpus[0]}", f"GPU{pair.gpus[1]}"),
            value=rate,
            reason=None if rate else NO_COPY,
            log=matrix.log.file,
            path="" if pair.path == UNKNOWN else pair.path,
        )
        for pair, rate in zip(pairs, rates, strict=True)
    )
    is_inferred = any(pair.inferred for pair in pairs)
    unknown = any(not pair.path for pair in pairs_read)
    assumption = INFERRED if is_inferred else SAME_NUMBERS
    return PairLogs(
        title=f"copies between GPUs ({', '.join(dict.fromkeys(models)) or 'model not known'})",
        metric="bandwidth",
        pairs=pairs_read,
        assumptions=(SLOWER, NO_PATHS if unknown else assumption),
        devices="gpus",
    )
