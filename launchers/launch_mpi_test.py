#!/usr/bin/env python3
"""Exchange messages between MPI processes: is the network as fast as it should be?

Example: python launch_mpi_test.py --run-local
"""

from typing import Annotated

from cluster.cli import start
from cluster.cli.flags import option
from cluster.cli.measurement import launcher

MB = 1_000_000  # bytes, as in the founding program


def launch_mpi_test(
    *,
    data_mb: Annotated[int, option("--data-mb N", "Message size, 1 MB = 1e6 B.")] = 100,
    iterations: Annotated[int, option("--iterations N", "How many messages.")] = 100,
) -> dict[str, object]:
    """Exchange messages between MPI processes: is the network as fast as it should be?

    Example: python launch_mpi_test.py --run-local
    """
    return {"metrics": ["oneway_time"], "sizes": [data_mb * MB], "iterations": iterations}


if __name__ == "__main__":
    start(
        launcher(
            "p2p",
            launch_mpi_test,
            name="mpi_test",
            provider="aws",
            instance="t2.large",
            launcher_values={
                "metrics": ["memory_copy", "oneway_time"]
            },  # on one host, a copy in memory is the limit
        )
    )
