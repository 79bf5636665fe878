#!/usr/bin/env python3
"""Sum numbers over all MPI processes: how fast is the network for distributed training?

Example: python launch_allreduce.py --run-local
"""

from typing import Annotated

import typer

from cluster.cli import bench, flags, start
from cluster.clusters import TIMEOUT

MB = 1_000_000  # bytes, as in the founding program
INSTANCE = "t2.large"


def launch_allreduce(  # noqa: PLR0913 - one parameter per flag
    *,
    name: flags.Name = "allreduce",
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
        typer.Option("--data-mb", metavar="N", help="Size on each process, 1 MB = 1e6 B."),
    ] = 100,
    iterations: Annotated[
        int, typer.Option("--iterations", metavar="N", help="How many times.")
    ] = 20,
    transport: Annotated[
        str, typer.Option("--transport", help="mpi; or gloo or nccl, by torch.")
    ] = "mpi",
    hosts: flags.Hosts = None,
    option: flags.Option = None,
    keep: flags.Keep = None,
    detach: flags.Detach = False,
    plan: flags.PlanOnly = False,
    timeout: flags.Timeout = TIMEOUT,
    runs: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    """Sum numbers over all MPI processes: how fast is the network for distributed training?

    Example: python launch_allreduce.py --run-local
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
    params = {"sizes": [data_mb * MB], "iterations": iterations, "transport": transport}
    how = bench.How(runs=runs, timeout=timeout, keep=keep, detach=detach, plan=plan, json=json)
    bench.measure(spec, "collectives", params, how)


if __name__ == "__main__":
    start(launch_allreduce)
