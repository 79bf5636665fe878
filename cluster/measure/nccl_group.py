"""NCCL among all ranks, each with a GPU, by NVIDIA's nccl4py: no torch, arrays of CuPy do."""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from cluster.agent.interfaces import list_interfaces
from cluster.core.errors import ClusterError
from cluster.measure.buffers import own_gpu, place_on_host
from cluster.measure.gpu_libraries import Library
from cluster.measure.rank import Rank

# What NCCL logs while it connects, not while it sends; the run keeps it, as the only proof of what
# its variables did. What the user sets is left as it is.
NCCL_LOG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "nccl.%h.%p.log"}
INSTEAD = "MPI between processors: --transport mpi"
WANTED_BY = "--transport=nccl4py uses it, and cluster does not install it."


def log_connections() -> None:
    """Let NCCL log how it connects, into files of this rank's folder."""
    for name, value in NCCL_LOG.items():
        os.environ.setdefault(name, value)


def name_interface(addresses: Sequence[str], number: int) -> None:
    """Let the libraries use the interface by which the other ranks reach this one."""
    for interface in list_interfaces():
        if interface.address == addresses[number]:
            names = dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), interface.name)
            os.environ.update(names)


def require_nccl4py() -> Any:  # noqa: ANN401 - a module that is optional
    """Import nccl4py, or raise ClusterError: it or NCCL is missing."""
    host = os.uname().nodename
    install = f"{sys.executable} -m pip install"
    if find_spec("nccl") is None:
        raise ClusterError(
            f"nccl4py is missing on {host}.",
            means=WANTED_BY,
            remedy=f"Beside a torch for CUDA, type there: {install} nccl4py\n"
            f"Beside CuPy for CUDA 13: {install} nccl4py nvidia-nccl-cu13 'cuda-bindings>=13,<14'",
        )
    try:
        import nccl.core  # noqa: PLC0415 - optional
    except ImportError as error:
        raise ClusterError(
            f"nccl4py on {host} cannot be imported: {error}.",
            means=WANTED_BY,
            remedy=f"Type there, for CUDA 13: {install} nccl4py 'cuda-bindings>=13,<14'",
        ) from error
    if nccl.core.get_version().libnccl is None:
        raise ClusterError(
            f"nccl4py on {host} finds no NCCL.",
            means="It is the interface to NCCL alone; the library libnccl.so.2 comes with a torch "
            "for CUDA, or by itself.",
            remedy=f"Type there, for CUDA 13: {install} nvidia-nccl-cu13",
        )
    return nccl.core


def open_gpu(rank: Rank) -> Library:
    """Assign each rank of a host a GPU of its own, by torch or CuPy (SpecError)."""
    return own_gpu(place_on_host(rank.comm), INSTEAD)()


def join(rank: Rank, nccl: Any) -> Any:  # noqa: ANN401
    """Join all ranks in one communicator."""
    log_connections()
    name_interface(rank.addresses(), rank.number)
    key = rank.comm.bcast(bytes(nccl.get_unique_id()) if rank.number == 0 else None)
    return nccl.Communicator.init(rank.size, rank.number, nccl.UniqueId.from_bytes(key))
