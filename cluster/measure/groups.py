"""All ranks with their GPUs as a group: of torch.distributed, or of NCCL by NVIDIA's nccl4py.

The latter needs no torch: arrays of CuPy do.
"""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from cluster.agent.hardware.interfaces import list_interfaces
from cluster.core.errors import ClusterError
from cluster.measure.buffers import place_on_host
from cluster.measure.rank import Rank
from cluster.measure.subprocesses import free_port

# What NCCL logs while it connects, not while it sends; the run keeps it, as the only proof of what
# its variables did. What the user sets is left as it is.
NCCL_LOG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "nccl.%h.%p.log"}
INSTEAD = "MPI between processors: --transport mpi"
WANTED_BY = "--transport=nccl4py uses it, and cluster does not install it."


def set_variables(addresses: Sequence[str], number: int) -> None:
    """Let NCCL log to this rank's folder, and libraries use the interface where others reach it."""
    for name, value in NCCL_LOG.items():
        os.environ.setdefault(name, value)
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


def join_nccl(rank: Rank, nccl: Any) -> Any:  # noqa: ANN401
    set_variables(rank.addresses(), rank.number)
    key = rank.comm.bcast(bytes(nccl.get_unique_id()) if rank.number == 0 else None)
    return nccl.Communicator.init(rank.size, rank.number, nccl.UniqueId.from_bytes(key))


def import_torch(wanted_by: str, instead: str = "") -> Any:  # noqa: ANN401 - a module that is optional
    """Import torch (ClusterError: it is missing); `wanted_by`: such as `--transport=gloo`."""
    try:
        import torch  # noqa: PLC0415 - hundreds of megabytes
    except ImportError:
        raise ClusterError(
            f"torch is missing on {os.uname().nodename}.",
            means=f"{wanted_by} uses it, and cluster does not install it: it takes gigabytes.",
            remedy=f"Install it there: python3 -m pip --python {sys.executable} install torch\n"
            "Or name a Python or an image that has it: --option python=PATH, --option image=NAME"
            f"{instead}",
        ) from None
    return torch


def require_torch(backend: str, wanted_by: str) -> Any:  # noqa: ANN401
    """Import torch with a backend (ClusterError: it lacks that, or is missing)."""
    torch = import_torch(wanted_by)
    if not getattr(torch.distributed, f"is_{backend}_available")():
        raise ClusterError(
            f"torch {torch.__version__} on {os.uname().nodename} comes without {backend}.",
            remedy="Install a torch that has it; nccl comes with those for CUDA.",
        )
    return torch


def choose_gpu(rank: Rank, torch: Any) -> str:  # noqa: ANN401
    """Select a GPU for each rank of a host, such as `cuda:0` (ClusterError: there are too few)."""
    index, all_ = place_on_host(rank.comm)
    count = torch.cuda.device_count()
    if count < all_:
        raise ClusterError(
            f"{os.uname().nodename} has {count} GPU(s) for {all_} ranks.",
            means="With nccl every rank needs a GPU of its own.",
            remedy=f"Ask for fewer: --ranks-per-host {max(1, count)}",
        )
    torch.cuda.set_device(index)
    return f"cuda:{index}"


def join_torch(rank: Rank, torch: Any, backend: str) -> None:  # noqa: ANN401
    """Join all ranks at rank 0, by the address at which the others reach it."""
    addresses = rank.addresses()
    set_variables(addresses, rank.number)
    port = rank.comm.bcast(free_port(addresses[0]) if rank.number == 0 else None)
    torch.distributed.init_process_group(
        backend, init_method=f"tcp://{addresses[0]}:{port}", rank=rank.number, world_size=rank.size
    )
