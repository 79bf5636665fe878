"""NICs of a host in logs of tests over one of them each, with the path to the nearest GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cluster.analysis.topology.gpu_paths import OLD, speed
from cluster.core.model.pair_logs import LoggedPair, PairLogs
from cluster.fleet.pair_logs import PairResult, pair_logs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.fleet import PairMetric
    from cluster.core.model.logs import Device, Parsed, Topology

NO_PATHS = "how NICs and GPUs are connected is not known: add the output of nvidia-smi topo -m"
NEAREST = "a NIC without a GPU in its test has the class of its path to the nearest GPU"
SAME_NUMBERS = "GPU n of CUDA is GPU n of nvidia-smi (CUDA_DEVICE_ORDER=PCI_BUS_ID)"
OTHER_END = "the other end of each test is as fast as its NIC"


class NicResult(NamedTuple):
    """A result of a tool over one NIC.

    Args:
        nic: its name, such as `mlx5_0`.
        gpu: the number of the GPU whose memory was sent; none if it was the host's.

    """

    log: str
    nic: str
    gpu: int | None
    result: Parsed


def nic_pairs(
    results: Sequence[NicResult], topology: Topology | None, metric: PairMetric, wanted: str
) -> PairLogs:
    """Join the tests of the NICs of one host, and its topology.

    Returns:
        A value of each NIC, or of each NIC with a GPU, at one size of message.

    Raises:
        SpecError: the logs have several tests, or none.

    """
    logs = pair_logs([PairResult(r.log, _ends(r), r.result) for r in results], metric, wanted)
    of_gpus = any(one.gpu is not None for one in results)
    classes = {r.nic: _class(r.nic, topology) for r in results}
    pairs = tuple(_with_path(pair, classes, topology) for pair in logs.pairs)
    known = [SAME_NUMBERS if of_gpus else NEAREST]
    strange = [nic for nic in classes if topology and _device(nic, topology) is None]
    known += [f"the topology has no {', '.join(strange)}: their paths are not known"] * bool(
        strange
    )
    return PairLogs(
        title=logs.title,
        metric=metric,
        pairs=pairs,
        assumptions=(OTHER_END, *(known if topology else [NO_PATHS])),
        left_out=logs.left_out,
        devices="nics",
    )


def _ends(result: NicResult) -> tuple[str, str]:
    return (result.nic if result.gpu is None else f"GPU{result.gpu}", result.nic)


def _with_path(pair: LoggedPair, classes: dict[str, str], topology: Topology | None) -> LoggedPair:
    gpu, nic = pair.hosts
    path = classes[nic]
    if gpu != nic:
        device = _device(nic, topology)
        path = _known(topology.path(gpu, device.name)) if topology and device else ""
    return LoggedPair(
        hosts=pair.hosts, value=pair.value, reason=pair.reason, log=pair.log, path=path
    )


def _device(nic: str, topology: Topology | None) -> Device | None:
    """Find a NIC by its name in the matrix or in the legend."""
    every = topology.devices if topology else ()
    return next((d for d in every if nic in (d.name, d.model) and not d.is_gpu), None)


def _class(nic: str, topology: Topology | None) -> str:
    """Return the fastest path from a NIC to a GPU; empty if it is not known."""
    device = _device(nic, topology)
    if topology is None or device is None:
        return ""
    paths = [_known(topology.path(device.name, d.name)) for d in topology.devices if d.is_gpu]
    return max(paths, key=speed, default="")


def _known(path: str) -> str:
    return "" if path == "?" else OLD.get(path, path)
