#!/usr/bin/env python3
"""Sum numbers over all MPI processes: how fast is the network for distributed training?

Example: python launch_allreduce.py --run-local
"""

from typing import Annotated

from cluster.cli import start
from cluster.cli.flags import option
from cluster.cli.measurement import launcher

MB = 1_000_000  # bytes, as in the founding program


def launch_allreduce(
    *,
    data_mb: Annotated[int, option("--data-mb N", "Size on each process, 1 MB = 1e6 B.")] = 100,
    iterations: Annotated[int, option("--iterations N", "How many times.")] = 20,
    transport: Annotated[
        str, option("--transport", "mpi; gloo or nccl, by torch; nccl4py.")
    ] = "mpi",
) -> dict[str, object]:
    """Sum numbers over all MPI processes: how fast is the network for distributed training?

    Example: python launch_allreduce.py --run-local
    """
    return {"sizes": [data_mb * MB], "iterations": iterations, "transport": transport}


if __name__ == "__main__":
    start(
        launcher(
            "collectives", launch_allreduce, name="allreduce", provider="aws", instance="t2.large"
        )
    )
