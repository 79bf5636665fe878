"""What was found out about the hosts of a run, in files beside its values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from cluster.core import decoders
from cluster.core.files import write_file
from cluster.core.model.fleet import FleetVerdict, Part

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.core.model.placement import Placement
    from cluster.core.model.value import Value

V = TypeVar("V")
VERDICT = "verdict.json"  # of a check of a fleet
PLACEMENT = "placement.json"  # which hosts are near one another


def write_verdict(folder: Path, verdict: FleetVerdict) -> None:
    """Write the verdict of a check of a fleet (ClusterError)."""
    _write(folder / VERDICT, verdict)


def verdict(folder: Path) -> FleetVerdict | None:
    """Read the verdict of a check; None if the run is no check, or the file is damaged."""
    return _read(folder / VERDICT, FleetVerdict) or _recorded(folder / VERDICT)


def _recorded(path: Path) -> FleetVerdict | None:
    """Read a verdict in words, as it was written before its reasons had codes."""
    raw = _read(path, dict[str, Any])
    if raw is None or "reason" in raw:
        return None
    unknown = {"code": "recorded"}
    for key in ("blamed", "observations"):
        raw[key] = [
            {**finding, "place": _place(finding["part"]), "reason": unknown}
            for finding in raw.get(key, ())
        ]
    try:
        return decoders.convert({**raw, "reason": unknown}, FleetVerdict)
    except msgspec.ValidationError:
        return None


def _place(name: str) -> Part:
    """Read the name of a part, such as `host:7`, `nic:7.3`, `link:3-5` or `fabric`."""
    kind, _, rest = name.partition(":")
    fields: dict[str, tuple[str, ...]] = {
        "host": ("host",),
        "nic": ("host", "nic"),
        "pair": ("host", "peer"),
        "link": ("number", "upper"),
        "corelink": ("number", "upper"),
        "group": ("number",),
        "spine": ("number",),
    }
    numbers = [int(number) for number in re.findall(r"\d+", rest)]
    if kind in fields and len(numbers) == len(fields[kind]):
        values = dict(zip(fields[kind], numbers, strict=True))
        return decoders.convert({"kind": kind, **values}, Part)
    if rest:
        return Part(kind="device", device=rest)
    return decoders.convert({"kind": kind}, Part)


def write_placement(folder: Path, judged: Placement) -> None:
    """Write which hosts of a run are near one another (ClusterError)."""
    _write(folder / PLACEMENT, judged)


def placement(folder: Path) -> Placement | None:
    """Read which hosts of a run are near one another; None if not judged, or damaged."""
    from cluster.core.model.placement import Placement  # noqa: PLC0415 - of few runs

    return _read(folder / PLACEMENT, Placement)


def _write(path: Path, value: Value) -> None:
    write_file(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def _read(path: Path, kind: type[V]) -> V | None:
    try:
        return decoders.decode(path.read_bytes(), kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
