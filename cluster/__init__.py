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
    from cluster.core.model.measurements import Definition, Measurement, Summary
    from cluster.core.model.records import Record
    from cluster.core.model.spec import ClusterSpec
    from cluster.orchestration.ab_test import ab
    from cluster.orchestration.answers import check, import_, judge, proximity, watch
    from cluster.orchestration.bench.listener import Listener
    from cluster.orchestration.cluster import Cluster, attach
    from cluster.orchestration.launch.launch import launch
    from cluster.runs.catalog import load, runs
    from cluster.runs.comparison import RunComparison, compare
    from cluster.runs.run import Run

__all__ = [
    "Capacity",
    "Cluster",
    "ClusterError",
    "ClusterSpec",
    "Definition",
    "Denied",
    "HostErrors",
    "InUse",
    "JobError",
    "LargeDownload",
    "LaunchLeft",
    "Listener",
    "Machine",
    "Measurement",
    "ParseError",
    "ProvisionError",
    "Quota",
    "Record",
    "Run",
    "RunComparison",
    "ShellError",
    "SpecError",
    "Summary",
    "Timeout",
    "Unreachable",
    "__version__",
    "ab",
    "attach",
    "check",
    "compare",
    "import_",
    "judge",
    "launch",
    "load",
    "proximity",
    "runs",
    "watch",
]

_MODULES = {
    "Capacity": "cluster.core.errors",
    "Cluster": "cluster.orchestration.cluster",
    "ClusterError": "cluster.core.errors",
    "ClusterSpec": "cluster.core.model.spec",
    "Definition": "cluster.core.model.measurements",
    "Denied": "cluster.core.errors",
    "HostErrors": "cluster.core.errors",
    "InUse": "cluster.core.errors",
    "JobError": "cluster.core.errors",
    "LargeDownload": "cluster.core.errors",
    "LaunchLeft": "cluster.core.errors",
    "Listener": "cluster.orchestration.bench.listener",
    "Machine": "cluster.core.model.hosts",
    "Measurement": "cluster.core.model.measurements",
    "ParseError": "cluster.core.errors",
    "ProvisionError": "cluster.core.errors",
    "Quota": "cluster.core.errors",
    "Record": "cluster.core.model.records",
    "Run": "cluster.runs.run",
    "RunComparison": "cluster.runs.comparison",
    "ShellError": "cluster.core.errors",
    "SpecError": "cluster.core.errors",
    "Summary": "cluster.core.model.measurements",
    "Timeout": "cluster.core.errors",
    "Unreachable": "cluster.core.errors",
    "ab": "cluster.orchestration.ab_test",
    "attach": "cluster.orchestration.cluster",
    "check": "cluster.orchestration.answers",
    "compare": "cluster.runs.comparison",
    "import_": "cluster.orchestration.answers",
    "judge": "cluster.orchestration.answers",
    "launch": "cluster.orchestration.launch.launch",
    "load": "cluster.runs.catalog",
    "proximity": "cluster.orchestration.answers",
    "watch": "cluster.orchestration.answers",
}


if not TYPE_CHECKING:  # a type checker knows the names above, and refuses all others

    def __getattr__(name: str) -> object:
        if name == "runs":  # the package, which can be called; see there
            return import_module("cluster.runs")
        if name in _MODULES:
            return getattr(import_module(_MODULES[name]), name)
        raise AttributeError(f"module 'cluster' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
