"""What was found out about the hosts of a run, in files beside its values."""

from pathlib import Path

import msgspec

from cluster.core import decoders
from cluster.core.files import write_file
from cluster.core.model.fleet import FleetVerdict
from cluster.core.model.placement import Placement
from cluster.core.model.value import Value

VERDICT = "verdict.json"  # of a check of a fleet
PLACEMENT = "placement.json"  # which hosts are near one another


def write_verdict(folder: Path, verdict: FleetVerdict) -> None:
    """Write the verdict of a check of a fleet (ClusterError)."""
    _write(folder / VERDICT, verdict)


def verdict(folder: Path) -> FleetVerdict | None:
    """Read the verdict of a check; None if the run is no check, or the file is damaged."""
    return decoders.decode_file(folder / VERDICT, FleetVerdict)


def write_placement(folder: Path, judged: Placement) -> None:
    """Write which hosts of a run are near one another (ClusterError)."""
    _write(folder / PLACEMENT, judged)


def placement(folder: Path) -> Placement | None:
    """Read which hosts of a run are near one another; None if not judged, or damaged."""
    from cluster.core.model.placement import Placement  # noqa: PLC0415 - of few runs

    return decoders.decode_file(folder / PLACEMENT, Placement)


def _write(path: Path, value: Value) -> None:
    write_file(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
