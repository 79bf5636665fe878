"""What the runs of a log have in common, kept once: labels, settings, definitions and matrices.

Most runs of one log have the same few, and a run of a few values needs more memory for them than
for the values. Each cache is small, and is emptied when it is full.
"""

from __future__ import annotations

from functools import lru_cache
from operator import is_
from typing import TYPE_CHECKING

from cluster.core.model.logs import Setting
from cluster.logs.columns import SeriesPoint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cluster.core.model.logs import Detail
    from cluster.core.model.measurements import Definition
    from cluster.core.model.value import Scalar

MOST = 256  # sets of settings, of definitions, and so on
_LONGEST = 1024  # series of which one keeps the points and metrics
_POINTS: dict[tuple[object, ...], SeriesPoint] = {}
_SEQUENCES: dict[int, tuple[SeriesPoint, ...]] = {}
_MOST_POINTS = 4096  # of single values, that are kept as others may have the same labels


def shared_point(
    key: tuple[object, ...], params: Mapping[str, Scalar], rank: int, size: int
) -> SeriesPoint:
    """Return the point of a single value; most runs in a log have the same few.

    Args:
        size: bytes that moved.

    Returns:
        Usually the same object for equal arguments; `1` and `1.0` are not equal here.

    """
    whole = (size, *map(type, params.values()), *key)
    found = _POINTS.get(whole)
    if found is None:
        if len(_POINTS) >= _MOST_POINTS:
            _POINTS.clear()
        found = _POINTS[whole] = SeriesPoint(dict(params), rank, size)
    return found


def shared_points(points: Sequence[SeriesPoint]) -> Sequence[SeriesPoint]:
    """Return an earlier sequence of the same objects, where there is one."""
    if len(points) > _LONGEST:
        return points
    key = hash(tuple(map(id, points)))
    found = _SEQUENCES.get(key)
    if found is not None and len(found) == len(points) and all(map(is_, found, points)):
        return found
    if len(_SEQUENCES) >= MOST:
        _SEQUENCES.clear()
    found = _SEQUENCES[key] = tuple(points)
    return found


@lru_cache(MOST)
def shared_settings(*pairs: tuple[str, str]) -> tuple[Setting, ...]:
    """Return settings from a cache."""
    return tuple(Setting(name=name, value=value) for name, value in pairs)


@lru_cache(MOST)
def shared_detail(detail: Detail) -> Detail:
    """Return an equal detail from a cache: hosts of a kind print the same matrix."""
    return detail


_KEPT: dict[tuple[int, ...], tuple[Definition, ...]] = {}


def shared_definitions(*found: Definition) -> tuple[Definition, ...]:
    """Return definitions from a cache; their addresses are faster to compare than what they say."""
    key = tuple(map(id, found))
    kept = _KEPT.get(key)
    if kept is None:
        if len(_KEPT) >= MOST:
            _KEPT.clear()
        kept = _KEPT[key] = found  # which keeps these addresses theirs
    return kept


@lru_cache(MOST)
def _short(metrics: bytes) -> bytes:
    return metrics


def shared_metrics(metrics: bytes) -> bytes:
    """Return equal bytes from a cache, if they are short.

    Returns:
        The same, or equal bytes.

    """
    return _short(metrics) if len(metrics) <= _LONGEST else metrics
