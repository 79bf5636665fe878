#!/usr/bin/env python3
"""Two nodes exchange vectors: how fast is the network between them, from buffers of the processor?

Example: python compare_cpu_gpu.py create-cluster --zone us-central1-a
"""

from typing import Annotated

import typer

from cluster.cli import bench, flags, start
from cluster.cli.app import down
from cluster.cli.hosts import up
from cluster.clusters import TIMEOUT, attach

NAME = "cpu-gpu-p2p"  # the founding experiment's
PROVIDER, ACCELERATOR = "gcp", "t4:1"
FLOAT32 = 4  # bytes
LENGTHS = tuple(10**exponent for exponent in range(1, 10))  # of a vector

Name = Annotated[str, typer.Option("--name", help="Name of the cluster.")]


def create_cluster(  # noqa: PLR0913 - one parameter per flag
    *,
    name: Name = NAME,
    provider: flags.Provider = PROVIDER,
    hosts: flags.Hosts = 2,
    placement: flags.Placement = 0,
    instance: flags.Instance = None,
    zone: flags.Zone = None,
    image: flags.Image = None,
    spot: flags.Spot = False,
    accelerator: flags.Accelerator = None,
    ttl: flags.Ttl = None,
    option: flags.Option = None,
    plan: flags.PlanOnly = False,
) -> None:
    """Make the nodes, each with one accelerator on Google's cloud unless an --instance is named."""
    usual = ACCELERATOR if provider == PROVIDER and not instance else None
    up(
        name,
        provider=provider,
        hosts=hosts,
        placement=placement,
        instance=instance,
        zone=zone,
        image=image,
        spot=spot,
        accelerator=accelerator or usual,
        ttl=ttl,
        option=option,
        plan=plan,
    )


def cpu(
    *,
    name: Name = NAME,
    max_bytes: Annotated[
        int, typer.Option("--max-bytes", metavar="N", help="Of the largest vector.")
    ] = FLOAT32 * LENGTHS[-1],
    iterations: Annotated[
        int, typer.Option("--iterations", metavar="N", help="How many of each.")
    ] = 100,
    timeout: flags.Timeout = TIMEOUT,
    runs: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    """Send vectors of 10 to 10^9 float32 from one node to the other."""
    sizes = [FLOAT32 * length for length in LENGTHS if FLOAT32 * length <= max_bytes]
    params = {"metrics": ["oneway_time"], "sizes": sizes, "iterations": iterations}
    how = bench.How(runs=runs, timeout=timeout, keep=True, json=json)
    bench.measure(attach(name).spec, "p2p", params, how)


def cleanup_cluster(*, name: Name = NAME, region: flags.Regions = None) -> None:
    """Take everything away."""
    down([name], region=region)


if __name__ == "__main__":
    start(create_cluster, cpu, cleanup_cluster)
