"""Compares a series with published results: what is usual, and which entries are nearest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Literal

from cluster.analysis.limits import hardware, published
from cluster.analysis.limits.published import PublishedResult
from cluster.core.model.limits import Hardware
from cluster.core.model.measurements import Definition, Summary
from cluster.core.model.value import Scalar, Value

ENOUGH = 3  # published runs that show what is usual; fewer are named one by one
SAME_SIZE = 2.0  # how many times larger or smaller a message may be
HALF = 0.5  # of a published value: below this, even one says that the hardware can do more
REPEATED = 0.9  # of the lowest published value: above this, it is the same result
ONE_HOST = ("host to GPU", "GPU to GPU", "GPU memory")  # media within one host


class Published(Value, frozen=True, kw_only=True):
    """What others published of the same thing."""

    results: tuple[str, ...]  # their ids: of the runs that are alike, or the nearest if `runs` is 0
    # how many published runs are alike: the same definition, hardware, hosts and collective, and a
    # size within a factor of two; 0 if the results are only the nearest
    runs: int = 0
    low: float | None = None  # the lowest of their values, in the unit of the series
    high: float | None = None
    reached: int = 0  # how many of those runs the series is as good as, within a tenth
    # `normal` if the series is like them, `low` if it is lower and there are enough of them to say
    # so, or if it is below half of one, else empty
    word: Literal["", "normal", "low"] = ""


def compare(
    summary: Summary,
    definition: Definition,
    board: Hardware | None,
    results: Iterable[PublishedResult] | None = None,
) -> Published | None:
    """Compare a series with what others published; None if nothing similar was."""
    if (
        board is None
        or definition.id not in published.definitions()
        or not _is_plain(summary.params)
    ):
        return None
    candidates = [
        result
        for result in (published.results_of(definition.id) if results is None else results)
        if _is_usual(result, definition)
        and (
            definition.medium != "collective" or result.run.test == summary.params.get("operation")
        )
        and _is_same_hardware(result, board)
    ]
    similar = _nearest_of_each_run(
        [r for r in candidates if _has_same_hosts(r, summary.params, definition)], summary.params
    )
    if similar:
        return _usual(summary, similar)
    across = summary.params.get("hosts", 0) not in (0, 1)
    comparable = [r for r in candidates if not across or r.run.hosts > 1]
    nearest = _nearest_of_each_run(comparable, summary.params)[:ENOUGH]
    if not nearest:
        return None
    below = any(_is_far_below(summary, result) for result in nearest)
    return Published(results=tuple(r.id for r in nearest), word="low" if below else "")


def _is_usual(result: PublishedResult, definition: Definition) -> bool:
    run = result.run
    return run.definition == definition.id and run.grade in published.USUAL and not run.settings


def _is_far_below(summary: Summary, result: PublishedResult) -> bool:
    """Tell whether a rate is below half of what a smaller message reached on as many hosts."""
    params, size = summary.params, summary.params.get("size", 0)
    layout = params.get("hosts"), params.get("ranks")
    is_like = layout == (result.run.hosts, result.run.ranks)
    is_larger = isinstance(size, int) and size >= result.size > 0
    is_rate = summary.better == "higher"
    return is_rate and is_like and is_larger and summary.median < HALF * median(result.values)


def _usual(summary: Summary, similar: Sequence[PublishedResult]) -> Published:
    medians = [median(result.values) for result in similar]
    low, high = min(medians), max(medians)
    if summary.better == "higher":
        reached = sum(summary.median >= REPEATED * value for value in medians)
    else:
        reached = sum(summary.median <= value / REPEATED for value in medians)
    enough = len(similar) >= ENOUGH or (summary.better == "higher" and summary.median < HALF * low)
    return Published(
        results=tuple(result.id for result in similar),
        runs=len(similar),
        low=low,
        high=high,
        reached=reached,
        word="normal" if reached else "low" if enough else "",
    )


def _is_plain(params: dict[str, Scalar]) -> bool:
    """Tell whether a test is the usual one: one pair, pinned memory, one GPU, P2P enabled."""
    several = any(
        params.get(name, 1) not in (0, 1) for name in ("pairs", "devices", "streams", "groups")
    )
    return not several and params.get("p2p") != "off" and params.get("memory") != "pageable"


def _is_same_hardware(result: PublishedResult, board: Hardware) -> bool:
    """Compare GPUs for tests within a host, and the type of host for tests between hosts."""
    other = hardware.find(result.run.hardware)
    if result.run.hosts == 1 and other.gpu:
        return other.gpu == board.gpu
    return _plain(other.name) == _plain(board.name)


def _plain(name: str) -> str:
    return name.lower().removeprefix("standard_")


def _has_same_hosts(
    result: PublishedResult, params: dict[str, Scalar], definition: Definition
) -> bool:
    hosts = 1 if definition.medium in ONE_HOST else params.get("hosts")
    is_equal = (
        hosts == result.run.hosts and params.get("ranks", result.run.ranks) == result.run.ranks
    )
    return is_equal and _is_same_size(result, params)


def _is_same_size(result: PublishedResult, params: dict[str, Scalar]) -> bool:
    size = params.get("size", 0)
    if not isinstance(size, int) or not size or not result.size:
        return size == result.size
    return 1 / SAME_SIZE <= size / result.size <= SAME_SIZE


def _distance(result: PublishedResult, params: dict[str, Scalar]) -> tuple[bool, float]:
    size = params.get("size", 0)
    if not isinstance(size, int) or not size or not result.size:
        return params.get("hosts") != result.run.hosts, 0.0
    return params.get("hosts") != result.run.hosts, max(size / result.size, result.size / size)


def _nearest_of_each_run(
    results: Iterable[PublishedResult], params: dict[str, Scalar]
) -> list[PublishedResult]:
    """Keep one point of each run: a run that was published with many sizes counts once."""
    ordered = sorted(results, key=lambda result: _distance(result, params))
    counts: Counter[str] = Counter()
    nearest = []
    for result in ordered:
        counts[result.run.id] += 1
        if counts[result.run.id] == 1:
            nearest.append(result)
    return nearest
