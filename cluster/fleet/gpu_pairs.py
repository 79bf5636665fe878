"""Pairs of GPUs of a host in the logs of other tools, with the path between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.analysis.topology.gpu_paths import UNKNOWN
from cluster.analysis.topology.topology import gpu_topology
from cluster.core.model.logs import Topology
from cluster.core.model.pair_logs import LoggedPair, PairLogs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.logs import Parsed

SLOWER = "a pair has the rate of its slower direction"
SAME_NUMBERS = "GPU n of CUDA is GPU n of nvidia-smi (CUDA_DEVICE_ORDER=PCI_BUS_ID)"
NO_PATHS = "how the GPUs are connected is not known: add the output of nvidia-smi topo -m as a log"
INFERRED = "the NVLinks of the pairs are inferred from their rates"
NO_COPY = "its bandwidth was not measured"


def is_gpu_matrix(result: Parsed) -> bool:
    """Tell whether a result is of copies between GPUs."""
    return any(d.medium == "GPU to GPU" for d in result.definitions)


def gpu_pairs(results: Sequence[Parsed], log: str) -> PairLogs:
    """Join matrices of bandwidth and the topology of one host.

    Returns:
        A value of each pair of GPUs, and the path between them.

    """
    copies = [m for result in results if is_gpu_matrix(result) for m in result.measurements]
    details = [result.detail for result in results]
    matrices = [d for d in details if isinstance(d, Topology)]
    topology = next((m for m in matrices if any(d.is_gpu for d in m.devices)), None)
    models = [model for result in results for model in result.devices]
    pairs = gpu_topology(topology, copies, models=models).pairs
    known = [_pair(one.gpus, one.copies.rate or one.copies.rate_without, one.path, log)
             for one in pairs]  # fmt: skip
    inferred = any(one.inferred for one in pairs)
    unknown = any(not one.path for one in known)
    assumed = INFERRED if inferred else SAME_NUMBERS
    return PairLogs(
        title=f"copies between GPUs ({', '.join(dict.fromkeys(models)) or 'model not known'})",
        metric="bandwidth",
        pairs=tuple(known),
        assumptions=(SLOWER, NO_PATHS if unknown else assumed),
        devices="gpus",
    )


def _pair(gpus: tuple[int, int], rate: float | None, path: str, log: str) -> LoggedPair:
    return LoggedPair(
        hosts=(f"GPU{gpus[0]}", f"GPU{gpus[1]}"),
        value=rate or None,
        reason="" if rate else NO_COPY,
        log=log,
        path="" if path == UNKNOWN else path,
    )
