"""`cluster check --within`: the GPUs, NUMA nodes or cores of each host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.cli.measurement import launched
from cluster.cli.progress.jobs import JobProgress
from cluster.core.errors import SpecError
from cluster.orchestration.cluster import Cluster, attach
from cluster.runs.run import WITHIN

if TYPE_CHECKING:
    from cluster.cli.repeat import BenchOptions
    from cluster.core.model.spec import ClusterSpec
    from cluster.runs.run import Run

DEVICES = ("auto", "gpus", "numa", "cores")


def check_within(name: str | None, devices: str, spec: ClusterSpec, options: BenchOptions) -> Run:
    """Measure copies between the devices of each host.

    Args:
        devices: to compare; `auto` for the first kind of which hosts have several.

    Raises:
        SpecError: there is no such kind of devices.

    """
    if devices not in DEVICES:
        what = f"--within {devices} is not known."
        raise SpecError(what, remedy=f"There are: {', '.join(DEVICES)}")
    if name is not None:
        return _measure(attach(name), devices, options)
    with launched(spec, WITHIN, {"devices": devices}, options) as cluster:
        return _measure(cluster, devices, options)


def _measure(cluster: Cluster, devices: str, options: BenchOptions) -> Run:
    live = JobProgress(stderr=options.json)
    return cluster.bench(
        WITHIN, runs=options.runs, timeout=options.timeout, listener=live, devices=devices
    )
