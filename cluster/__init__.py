"""Launch hosts, benchmark the network between them, judge the figures, and clean up.

    import cluster

    with cluster.launch("mpi_test", provider="local", hosts=2) as c:
        run = c.bench.p2p(metrics=["latency"], sizes=[8, "64KiB"])
    print(run.judge())                # one line: the figure, its share of the limit, a verdict
    run.to_pandas()                   # all raw values, with units; also .plot() and .report(path)
    cluster.load("latest")            # any earlier run; cluster.runs() lists them

The names below are imported when they are first used: ranks and hosts need only a few of them.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from cluster.core.version import __version__

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from cluster.core.errors import (
        Capacity,
        ClusterError,
        Denied,
        JobError,
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
    from cluster.orchestration.cluster import Cluster, attach
    from cluster.orchestration.launch import launch
    from cluster.orchestration.listener import Listener
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
    "JobError",
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
    "compare",
    "launch",
    "load",
    "runs",
]

_LAYERS = (  # the lighter first
    "core.errors",
    "core.model.spec",
    "core.model.hosts",
    "core.model.measurements",
    "core.model.records",
    "runs.run",
    "runs.catalog",
    "runs.comparison",
    "orchestration.listener",
    "orchestration.cluster",
    "orchestration.launch",
    "orchestration.ab_test",
)


if not TYPE_CHECKING:  # a type checker knows the names above, and refuses all others

    def __getattr__(name: str) -> object:
        if name == "runs":  # the package, which can be called; see there
            return import_module("cluster.runs")
        if name in __all__:
            for layer in _LAYERS:
                module = import_module(f"cluster.{layer}")
                if name in vars(module) and vars(module)[name].__module__ == module.__name__:
                    return vars(module)[name]
        raise AttributeError(f"module 'cluster' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


class _Moved:
    """An import hook: an import path of an older revision is answered with the new one."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> "ModuleSpec | None":
        if not name.startswith("cluster."):
            return None
        from cluster.core import moved  # noqa: PLC0415 - only for paths of the revision before

        return moved.find_spec(name)


sys.meta_path.append(_Moved)
