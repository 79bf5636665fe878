"""Zones that recently had no capacity: trying them again at once wastes time and calls."""

import time
from pathlib import Path

import msgspec

from cluster.core import decoders, files, journal
from cluster.core.model.value import Value
from cluster.core.paths import make_private

FILE = "shortages.jsonl"
REMEMBERED = 180.0  # seconds; as Karpenter does (pkg/cache/cache.go, UnavailableOfferingsTTL)


class Shortage(Value, frozen=True, kw_only=True):
    """A zone had no capacity for a machine type."""

    zone: str  # of the cloud
    instance: str  # the machine type
    at: float  # when, in seconds since the epoch


def note(zone: str, instance: str) -> None:
    path = _path()
    make_private(path.parent)
    entry = Shortage(zone=zone, instance=instance, at=time.time())
    files.append(path, msgspec.json.encode(entry) + b"\n")


def zones(instance: str) -> frozenset[str]:
    """Return the zones that had no capacity within the last three minutes."""
    since = time.time() - REMEMBERED
    try:
        text = _path().read_bytes()
    except OSError:
        return frozenset()
    shortages = (decoders.decode(line, Shortage) for line in files.complete_lines(text))
    return frozenset(s.zone for s in shortages if s.instance == instance and s.at > since)


def _path() -> Path:
    return journal.root() / FILE
