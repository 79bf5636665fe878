"""Runs on disk and in object stores; `cluster.runs()` lists them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.runs.catalog import RunList


class _CallablePackage(ModuleType):
    """The type of this package: `cluster.runs` can also be called, and lists the runs."""

    def __call__(self, where: str | Path | None = None) -> RunList:
        from cluster.runs.catalog import runs  # noqa: PLC0415 - it imports this package

        return runs(where)


sys.modules[__name__].__class__ = _CallablePackage
