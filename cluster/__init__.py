"""Launch hosts, benchmark the network between them, judge the figures, and clean up.

    import cluster

    with cluster.launch("mpi_test", provider="local", hosts=2) as c:
        run = c.bench.p2p(metrics=["latency"], sizes=[8, "64KiB"])
    print(run.judge())                # one line: the figure, its share of the limit, a verdict
    run.to_pandas()                   # all raw values, with units; also .plot() and .report(path)
    cluster.load("latest")            # any earlier run; cluster.runs() lists them

The names below are imported when they are first used: ranks and hosts need only a few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from cluster.core.version import __version__

if TYPE_CHECKING:
    from cluster.core.errors import (
        Capacity,
        ClusterError,
        Denied,
        HostErrors,
        InUse,
        JobError,
        LargeDownload,
        LaunchLeft,
        ParseError,
        ProvisionError,
        Quota,
        ShellError,
        SpecError,
        Timeout,
        Unreachable,
    )
    from cluster.core.model.hosts import Machine
    from cluster.core.model.results.measurements import Definition, Measurement, Summary
    from cluster.core.model.results.records import Record
    from cluster.core.model.spec import ClusterSpec, Group
    from cluster.orchestration.ab_test import ab
    from cluster.orchestration.answers import check, import_, judge, proximity, watch
    from cluster.orchestration.bench.collect import Listener
    from cluster.orchestration.cluster import Cluster, attach
    from cluster.orchestration.jobs.host_group import Host, HostGroup
    from cluster.orchestration.jobs.job import Job
    from cluster.orchestration.launch.launch import launch
    from cluster.runs.catalog import load, runs
    from cluster.runs.comparison import RunComparison, compare
    from cluster.runs.run import Run

__all__ = [
    "Capacity", "Cluster", "ClusterError", "ClusterSpec", "Definition", "Denied", "Group",
    "Host", "HostErrors", "HostGroup", "InUse", "Job", "JobError", "LargeDownload",
    "LaunchLeft", "Listener", "Machine", "Measurement", "ParseError", "ProvisionError", "Quota",
    "Record", "Run", "RunComparison", "ShellError", "SpecError", "Summary", "Timeout",
    "Unreachable", "__version__", "ab", "attach", "check", "compare", "import_", "judge",
    "launch", "load", "proximity", "runs", "watch",
]  # fmt: skip

_NAMES = {
    "cluster.core.errors": (
        *("Capacity", "ClusterError", "Denied", "HostErrors", "InUse", "JobError", "LargeDownload"),
        *("LaunchLeft", "ParseError", "ProvisionError", "Quota", "ShellError", "SpecError"),
        *("Timeout", "Unreachable"),
    ),
    "cluster.core.model.hosts": ("Machine",),
    "cluster.core.model.results.measurements": ("Definition", "Measurement", "Summary"),
    "cluster.core.model.results.records": ("Record",),
    "cluster.core.model.spec": ("ClusterSpec", "Group"),
    "cluster.orchestration.ab_test": ("ab",),
    "cluster.orchestration.answers": ("check", "import_", "judge", "proximity", "watch"),
    "cluster.orchestration.bench.collect": ("Listener",),
    "cluster.orchestration.cluster": ("Cluster", "attach"),
    "cluster.orchestration.jobs.host_group": ("Host", "HostGroup"),
    "cluster.orchestration.jobs.job": ("Job",),
    "cluster.orchestration.launch.launch": ("launch",),
    "cluster.runs.catalog": ("load",),
    "cluster.runs.comparison": ("RunComparison", "compare"),
    "cluster.runs.run": ("Run",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


if not TYPE_CHECKING:  # a type checker knows the names above, and refuses all others

    def __getattr__(name: str) -> object:
        if name == "runs":  # the package, which can be called; see there
            return import_module("cluster.runs")
        if name in _MODULES:
            return getattr(import_module(_MODULES[name]), name)
        raise AttributeError(f"module 'cluster' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
