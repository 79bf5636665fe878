"""Import paths of older revisions: each gives an error that names the new path.

Plug-ins and scripts of users may still import them. `cluster.onhost` still runs, because a job
that an older revision started calls `python3 -m cluster.onhost`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

MODULES = {  # an old module, and the modules in which its names are now
    "agent.tuning": ("agent.host_settings",),
    "analysis.scaling": ("analysis.efficiency",),
    "aws": ("providers.aws",),
    "benchmark": ("measure.benchmark", "core.options"),
    "cloud": ("providers._cloud",),
    "clusters": ("orchestration.cluster",),
    "core.model.billing": ("core.model.resources",),
    "devices": ("measure.buffers",),
    "environment": ("remote.environment.install", "remote.environment.tools"),
    "errors": ("core.errors",),
    "foreign": ("core.model.logs",),
    "gcp": ("providers.gcp",),
    "gpus": ("agent.gpus", "measure.gpu_requirements"),
    "hardware": ("analysis.hardware",),
    "importing": ("runs.import_logs",),
    "journal": ("core.journal",),
    "kernels": ("measure.kernels",),
    "launching": ("orchestration.launch",),
    "lines": ("core.jsonl",),
    "logtext": ("logs.text",),
    "model": (
        "core.model.value",
        "core.model.spec",
        "core.model.hosts",
        "core.model.measurements",
        "core.model.records",
        "core.model.resources",
        "core.model.hardware",
    ),
    "orchestration.profiling": ("orchestration.mpi_profile",),
    "parsers": ("logs.parsers",),
    "payload": ("measure.payload",),
    "plugins": ("core.plugins",),
    "programs": ("measure.subprocesses",),
    "rank": ("measure.rank", "measure.main"),
    "reading": ("logs.reader",),
    "redaction": ("logs.redaction",),
    "reports.plots.scalings": ("reports.plots.efficiencies",),
    "sampling": ("measure.repetitions",),
    "sheets": ("reports.tables",),
    "shells": ("remote.shells",),
    "starters": ("measure.starters",),
    "stores": ("runs.object_store",),
    "trials": ("orchestration.ab_test",),
    "units": ("core.units",),
    "version": ("core.version",),
}
RENAMED = {  # an old name, and the new one
    "Tell": "StateCallback",
    "nothing": "ignore",
    "complete": "run_program",
    "serving": "run_server",
    "stand_in": "main_without_mpi",
}
NAMES = {  # of modules that are packages now, and where each is
    "reports": dict.fromkeys(("Report", "columns", "row", "rows", "remarks"), "reports.formats"),
    "runs": {
        "Run": "runs.run",
        **dict.fromkeys(("all_of", "find", "folders", "read", "record", "root"), "runs.store"),
    },
}


class MovedError(ImportError):
    """An import path that an older revision had.

    Args:
        old: the path.
        new: the path now.

    """

    def __init__(self, old: str, new: str) -> None:
        super().__init__(f"{old} is now {new}.")
        package, _, name = new.rpartition(".")
        self.remedy = f"Write: from {package} import {name}"


class _OldModule(ModuleType):
    """A placeholder for a moved module: each of its names raises an error with the new path."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        modules = MODULES[self.__name__.removeprefix("cluster.")]
        now = RENAMED.get(name, name)
        for module in modules:
            if now in vars(import_module(f"cluster.{module}")):
                raise MovedError(f"{self.__name__}.{name}", f"cluster.{module}.{now}")
        raise MovedError(self.__name__, f"cluster.{modules[0]}")


class _Loader:
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _OldModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: a placeholder has no code."""


def find_spec(name: str) -> ModuleSpec | None:
    """Find a module that an older revision had.

    Args:
        name: its import path, such as `cluster.model`, which does not exist any more.

    Returns:
        The placeholder's spec; none if there never was such a module.

    Raises:
        MovedError: it was inside a package that moved.

    """
    path = name.removeprefix("cluster.")
    package, *inside = path.split(".")
    if package == "onhost":
        return spec_from_file_location(name, Path(__file__).parent.parent / "agent/__main__.py")
    if path in MODULES:
        return ModuleSpec(name, cast("Loader", _Loader()), is_package=True)
    if package in MODULES:
        raise MovedError(name, ".".join(("cluster", MODULES[package][0], *inside)))
    return None


def look_up(package: str, name: str) -> None:
    """Raise the error for a name that a package does not have, and perhaps had as a module.

    Args:
        package: such as `cluster.runs`.
        name: such as `read`.

    Raises:
        MovedError: it is in a module of the package now.
        AttributeError: it never had such a name.

    """
    new = NAMES[package.removeprefix("cluster.")].get(name)
    if new:
        raise MovedError(f"{package}.{name}", f"cluster.{new}.{name}")
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
