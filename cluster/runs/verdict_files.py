"""What was found out about the hosts of a run, in files beside its values."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from cluster.core.files import write_file
from cluster.core.model.fleet import FleetVerdict

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.core.model.placement import Placement
    from cluster.core.model.value import Value

V = TypeVar("V")
VERDICT = "verdict.json"  # of a check of a fleet
PLACEMENT = "placement.json"  # which hosts are near one another


def write_verdict(folder: Path, verdict: FleetVerdict) -> None:
    """Write the verdict of a check of a fleet.

    Raises:
        ClusterError: it cannot be written.

    """
    _write(folder / VERDICT, verdict)


def verdict(folder: Path) -> FleetVerdict | None:
    """Read the verdict of a check of a fleet.

    Returns:
        The verdict; none if the run is no check, or if the file is damaged.

    """
    return _read(folder / VERDICT, FleetVerdict)


def write_placement(folder: Path, found: Placement) -> None:
    """Write which hosts of a run are near one another.

    Raises:
        ClusterError: it cannot be written.

    """
    _write(folder / PLACEMENT, found)


def placement(folder: Path) -> Placement | None:
    """Read which hosts of a run are near one another.

    Returns:
        The placement; none if it was not asked for, or if the file is damaged.

    """
    from cluster.core.model.placement import Placement  # noqa: PLC0415 - of few runs

    return _read(folder / PLACEMENT, Placement)


def _write(path: Path, value: Value) -> None:
    write_file(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def _read(path: Path, kind: type[V]) -> V | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
