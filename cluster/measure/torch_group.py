"""torch.distributed among all ranks, with gloo or nccl."""

import os
import sys
from typing import Any

from cluster.core.errors import ClusterError
from cluster.measure import nccl_group
from cluster.measure.buffers import place_on_host
from cluster.measure.rank import Rank
from cluster.measure.subprocesses import free_port


def require_torch(backend: str, wanted_by: str) -> Any:  # noqa: ANN401 - a module that is optional
    """Import torch, or raise ClusterError: it is missing or lacks the backend.

    `wanted_by` is for the message, such as `--transport=gloo`.
    """
    try:
        import torch  # noqa: PLC0415 - hundreds of megabytes
    except ImportError:
        raise ClusterError(
            f"torch is missing on {os.uname().nodename}.",
            means=f"{wanted_by} uses it, and cluster does not install it.",
            remedy=f"Install it there: {sys.executable} -m pip install torch; or name "
            "an image that has it: --option image=NAME",
        ) from None
    if not getattr(torch.distributed, f"is_{backend}_available")():
        raise ClusterError(
            f"torch {torch.__version__} on {os.uname().nodename} comes without {backend}.",
            remedy="Install a torch that has it; nccl comes with those for CUDA.",
        )
    return torch


def choose_gpu(rank: Rank, torch: Any) -> str:  # noqa: ANN401
    """Select a GPU for each rank of a host, such as `cuda:0` (ClusterError: there are too few)."""
    own, all_ = place_on_host(rank.comm)
    count = torch.cuda.device_count()
    if count < all_:
        raise ClusterError(
            f"{os.uname().nodename} has {count} GPU(s) for {all_} ranks.",
            means="With nccl every rank needs a GPU of its own.",
            remedy=f"Ask for fewer: --ranks-per-host {max(1, count)}",
        )
    torch.cuda.set_device(own)
    return f"cuda:{own}"


def join(rank: Rank, torch: Any, backend: str) -> None:  # noqa: ANN401
    """Join all ranks at rank 0, by the address at which the others reach it."""
    if backend == "nccl":
        nccl_group.log_connections()
    addresses = rank.addresses()
    nccl_group.name_interface(addresses, rank.number)
    port = rank.comm.bcast(free_port(addresses[0]) if rank.number == 0 else None)
    torch.distributed.init_process_group(
        backend, init_method=f"tcp://{addresses[0]}:{port}", rank=rank.number, world_size=rank.size
    )
