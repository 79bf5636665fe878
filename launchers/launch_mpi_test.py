#!/usr/bin/env python3
"""Exchange messages between MPI processes: is the network as fast as it should be?

Example: python launch_mpi_test.py --run-local
"""

from typing import Annotated

import typer

from cluster.cli import bench, flags, start
from cluster.clusters import TIMEOUT

MB = 1_000_000  # bytes, as in the founding program
INSTANCE = "t2.large"


def launch_mpi_test(  # noqa: PLR0913 - one parameter per flag
    *,
    name: flags.Name = "mpi_test",
    instance: flags.Instance = None,
    run_local: flags.RunLocal = False,
    provider: flags.Provider = None,
    placement: flags.Placement = 0,
    zone: flags.Zone = None,
    image: flags.Image = None,
    spot: flags.Spot = False,
    accelerator: flags.Accelerator = None,
    ttl: flags.Ttl = None,
    data_mb: Annotated[
        int,
        typer.Option("--data-mb", metavar="N", help="Message size, 1 MB = 1e6 B."),
    ] = 100,
    iterations: Annotated[
        int, typer.Option("--iterations", metavar="N", help="How many messages.")
    ] = 100,
    hosts: flags.Hosts = None,
    option: flags.Option = None,
    keep: flags.Keep = None,
    detach: flags.Detach = False,
    plan: flags.PlanOnly = False,
    timeout: flags.Timeout = TIMEOUT,
    runs: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    """Exchange messages between MPI processes: is the network as fast as it should be?

    Example: python launch_mpi_test.py --run-local
    """
    chosen = flags.chosen(provider, run_local=run_local, default="aws")
    spec = flags.spec(
        name=name,
        provider=chosen,
        hosts=hosts,
        placement=placement,
        instance=instance or (INSTANCE if chosen == "aws" else None),
        zone=zone,
        image=image,
        spot=spot,
        accelerator=accelerator,
        ttl=ttl,
        option=option,
    )
    params = {"metrics": ["oneway_time"], "sizes": [data_mb * MB], "iterations": iterations}
    how = bench.How(runs=runs, timeout=timeout, keep=keep, detach=detach, plan=plan, json=json)
    bench.measure(spec, "p2p", params, how)


if __name__ == "__main__":
    start(launch_mpi_test)
