"""From nothing to a believable interconnect measurement, with nothing left running.

    import cluster

    with cluster.launch("mpi_test", provider="local", hosts=2) as c:
        run = c.bench("p2p", metrics=["latency"], sizes=[8])
    print(run.summary())

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
    from cluster.orchestration.cluster import Cluster, Listener, attach
    from cluster.orchestration.launch import launch
    from cluster.runs.run import Run

__all__ = [
    "Capacity",
    "Cluster",
    "ClusterError",
    "ClusterSpec",
    "Definition",
    "Denied",
    "JobError",
    "Listener",
    "Machine",
    "Measurement",
    "ParseError",
    "ProvisionError",
    "Quota",
    "Record",
    "Run",
    "ShellError",
    "SpecError",
    "Summary",
    "Timeout",
    "Unreachable",
    "__version__",
    "attach",
    "launch",
]

_LAYERS = (  # the lighter first
    "core.errors",
    "core.model.spec",
    "core.model.hosts",
    "core.model.measurements",
    "core.model.records",
    "runs.run",
    "orchestration.cluster",
    "orchestration.launch",
)


def __getattr__(name: str) -> object:
    if name in __all__:
        for layer in _LAYERS:
            module = import_module(f"cluster.{layer}")
            if name in vars(module) and vars(module)[name].__module__ == module.__name__:
                return vars(module)[name]
    raise AttributeError(f"module 'cluster' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Moved:
    """Says where a module of the revision before is now; asked for what was not found."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> "ModuleSpec | None":
        if not name.startswith("cluster."):
            return None
        from cluster.core import moved  # noqa: PLC0415 - only for paths of the revision before

        return moved.find_spec(name)


sys.meta_path.append(_Moved)
