"""Published results: what others measured, on which hardware, and where that can be read.

The `*.toml` files beside this one are the corpus. Each `[[run]]` is one published run of one test:

    hardware    a name of `hosts.toml` or `gpus.toml`
    hosts, ranks
    test        a collective, or the program
    definition  the id of what was measured; it is in `definitions.toml`
    unit        of the values
    grade       A: the log is public, and our parsers read the values from it
                B: a table of a named author, with versions
                C: a number alone
                X: physics or the source itself contradicts it; never used, and `reason` says why
    settings    that differ from the default, such as NCCL_ALGO=RING
    versions    of the software, and date: of the measurement; "not known" if neither the source nor
                what is around it says so, as a field that is left out may have been forgotten
    source      the address; for a repository with commit, path, and the line of each value
    points      each a size and its values
    log         of grade A: the lines of the log that hold the values

Facts and numbers only: the logs stay where they were published.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from statistics import median
from typing import Literal

import msgspec

from cluster.analysis.limits import hardware
from cluster.core.errors import SpecError
from cluster.core.model.results.limits import Hardware
from cluster.core.model.results.measurements import Definition, Summary
from cluster.core.model.value import Scalar, Value
from cluster.core.text.units import parse_size

Grade = Literal["A", "B", "C", "X"]
USUAL: tuple[Grade, ...] = ("A", "B")  # the grades that show what is usual
FILES = ("collectives.toml", "messages.toml", "devices.toml")
UNKNOWN = "not known"  # of versions and dates
DEFINITIONS, THRESHOLDS = "definitions.toml", "thresholds.toml"
ENTRY = "\n[[run]]\n"  # how each begins in its file
UNITS = {
    "GB/s": (1e9, "B/s"),
    "MB/s": (1e6, "B/s"),
    "MiB/s": (float(1 << 20), "B/s"),
    "s": (1.0, "s"),
    "ms": (1e-3, "s"),
    "us": (1e-6, "s"),
}
"""The units of published values: the factor to the unit of the definition, and that unit."""


class PublishedSource(Value, frozen=True, kw_only=True):
    """Where a published result can be read."""

    url: str
    commit: str = ""  # of the repository; empty if the source is not a repository
    path: str = ""
    line: int = 0  # of the value, from 1; 0 if it is not known
    author: str = ""

    def address(self, line: int = 0) -> str:
        """Return the address of a line of the file; 0 for that of the source."""
        if not self.path:
            return self.url
        lineno = line or self.line
        return f"{self.url}/blob/{self.commit}/{self.path}{f'#L{lineno}' if lineno else ''}"


class Point(Value, frozen=True, kw_only=True):
    """A size of a published run, and the values at it."""

    values: tuple[float, ...]  # in the unit of the run
    size: str = ""  # of a message, such as `8 GiB`; empty if it has none
    line: int = 0  # of the source's file, from 1; 0 if it is not known


class PublishedRun(Value, frozen=True, kw_only=True):
    """A published run of one test; the docstring of this module explains the fields."""

    id: str
    hardware: str
    hosts: int
    ranks: int
    test: str
    definition: str
    unit: str
    grade: Grade
    source: PublishedSource
    points: tuple[Point, ...]
    versions: str = ""
    date: str = ""
    settings: str = ""
    reason: str = ""
    log: str = ""


class PublishedResult(Value, frozen=True, kw_only=True):
    """A point of a published run, in the units of the definition."""

    id: str  # of the run, and the size
    run: PublishedRun  # that it is from
    size: int  # bytes of a message; 0 if it has none
    values: tuple[float, ...]  # in seconds, or bytes per second
    address: str  # where it can be read

    @property
    def params(self) -> dict[str, Scalar]:
        """The point, as a measurement of a log has it."""
        params: dict[str, Scalar] = {"size": self.size} if self.size else {}
        params |= {"hosts": self.run.hosts, "ranks": self.run.ranks}
        return params | {"operation": self.run.test}


class ThresholdEvidence(Value, frozen=True, kw_only=True):
    """A published result that a threshold rests on."""

    result: str
    of: str = ""  # the rate that it is a share of, such as `10gbit`; if empty, its bound
    why: str = ""


class Threshold(Value, frozen=True, kw_only=True):
    """The share of a bound that healthy hardware reaches with large messages."""

    share: float  # the lowest share of healthy hardware
    evidence: tuple[ThresholdEvidence, ...]


class _Runs(Value, frozen=True, kw_only=True):
    run: tuple[PublishedRun, ...]


@cache
def runs() -> tuple[PublishedRun, ...]:
    """Return all published runs, in the order of the files."""
    return tuple(run for name in FILES for run in read(_text(name), name))


@cache
def results_of(definition: str) -> tuple[PublishedResult, ...]:
    """Return every point of the published runs of one definition.

    Only the entries that name it are read: a whole command waits for that.
    """
    runs: list[PublishedRun] = []
    for name in FILES:
        entries = [f"{ENTRY}{e}" for e in _text(name).split(ENTRY)[1:] if definition in e]
        runs += read("".join(entries), name) if entries else ()
    return points(run for run in runs if run.definition == definition)


@cache
def results() -> tuple[PublishedResult, ...]:
    return points(runs())


def find(id_: str) -> PublishedResult:
    """Find a published result by its id, such as `p5-allreduce-aws@16GiB` (SpecError)."""
    for result in results():
        if result.id == id_:
            return result
    raise SpecError(
        f"There is no published result {id_!r}.", remedy="List them: cluster more corpus list"
    )


@cache
def definitions() -> dict[str, Definition]:
    """Return the definitions of what was published, by their ids."""
    entries = msgspec.toml.decode(_text(DEFINITIONS), type=dict[str, tuple[Definition, ...]])
    return {definition.id: definition for definition in entries["definition"]}


@cache
def thresholds() -> dict[str, Threshold]:
    return msgspec.toml.decode(_text(THRESHOLDS), type=dict[str, Threshold])


def size() -> int:
    """Return the size of all files of the corpus, in bytes."""
    return sum(len(_text(name).encode()) for name in (*FILES, DEFINITIONS, THRESHOLDS))


def read(text: str, name: str) -> tuple[PublishedRun, ...]:
    """Read a file of the corpus (SpecError)."""
    try:
        return msgspec.toml.decode(text, type=_Runs).run
    except msgspec.DecodeError as error:
        raise SpecError(
            f"{name}: {_entry(text, str(error))}{error}.",
            remedy="cluster/analysis/limits/published/__init__.py explains the fields of an entry.",
        ) from error


def _entry(text: str, problem: str) -> str:
    """Name the entry that a problem is about: msgspec only counts them."""
    place = re.search(r"\$\.run\[(\d+)\]", problem)
    if place is None:
        return ""
    entries = msgspec.toml.decode(text)["run"]
    id_ = entries[int(place[1])].get("id")
    return f"{id_}: " if isinstance(id_, str) else ""


def points(runs: Iterable[PublishedRun]) -> tuple[PublishedResult, ...]:
    """Return every point of runs whose units are known (SpecError: an unreadable size)."""
    return tuple(
        PublishedResult(
            id=f"{run.id}@{point.size.replace(' ', '')}" if point.size else run.id,
            run=run,
            size=_size(run, point),
            values=tuple(value * UNITS[run.unit][0] for value in point.values),
            address=run.source.address(point.line),
        )
        for run in runs
        if run.unit in UNITS
        for point in run.points
    )


_read_size = cache(parse_size)  # sweeps have the same sizes


def _size(run: PublishedRun, point: Point) -> int:
    try:
        return _read_size(point.size) if point.size else 0
    except SpecError as error:
        raise SpecError(f"{run.id}: {error.what}", remedy=error.remedy) from error


@cache
def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


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
    id_ = definition.id
    if board is None or id_ not in definitions() or not _is_plain(summary.params):
        return None
    results = results_of(id_) if results is None else tuple(results)
    runs = {r.run.id: r.run for r in results if r.run.definition == id_}
    similar_runs = {n for n, run in runs.items() if _is_alike(run, summary, definition, board)}
    candidates = [r for r in results if r.run.id in similar_runs]
    similar = _nearest_of_each_run(
        [r for r in candidates if _has_same_hosts(r, summary.params, definition)], summary.params
    )
    return _usual(summary, similar) if similar else _compare_nearest(summary, candidates)


def _compare_nearest(summary: Summary, candidates: Sequence[PublishedResult]) -> Published | None:
    """Compare a series with the nearest results of others on as few hosts, or on several."""
    is_spread = summary.params.get("hosts", 0) not in (0, 1)
    comparable = [r for r in candidates if not is_spread or r.run.hosts > 1]
    nearest = _nearest_of_each_run(comparable, summary.params)[:ENOUGH]
    if not nearest:
        return None
    is_below = any(_is_far_below(summary, result) for result in nearest)
    return Published(results=tuple(r.id for r in nearest), word="low" if is_below else "")


def _is_alike(run: PublishedRun, summary: Summary, definition: Definition, board: Hardware) -> bool:
    is_usual = run.grade in USUAL and not run.settings
    is_same = definition.medium != "collective" or run.test == summary.params.get("operation")
    return is_usual and is_same and _is_same_hardware(run, board)


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
        matches = sum(summary.median >= REPEATED * value for value in medians)
    else:
        matches = sum(summary.median <= value / REPEATED for value in medians)
    enough = len(similar) >= ENOUGH or (summary.better == "higher" and summary.median < HALF * low)
    return Published(
        results=tuple(result.id for result in similar),
        runs=len(similar),
        low=low,
        high=high,
        reached=matches,
        word="normal" if matches else "low" if enough else "",
    )


def _is_plain(params: dict[str, Scalar]) -> bool:
    """Tell whether a test is the usual one: one pair, pinned memory, one GPU, P2P enabled."""
    several = any(
        params.get(name, 1) not in (0, 1) for name in ("pairs", "devices", "streams", "groups")
    )
    return not several and params.get("p2p") != "off" and params.get("memory") != "pageable"


def _is_same_hardware(run: PublishedRun, board: Hardware) -> bool:
    """Compare GPUs for tests within a host, and the type of host for tests between hosts."""
    other = hardware.find(run.hardware)
    if run.hosts == 1 and other.gpu:
        return other.gpu == board.gpu
    return _plain(other.name) == _plain(board.name)


def _plain(name: str) -> str:
    return name.lower().removeprefix("standard_")


def _has_same_hosts(
    result: PublishedResult, params: dict[str, Scalar], definition: Definition
) -> bool:
    """Compare hosts, ranks and the size of messages."""
    run, size = result.run, params.get("size", 0)
    hosts = 1 if definition.medium in ONE_HOST else params.get("hosts")
    if hosts != run.hosts or params.get("ranks", run.ranks) != run.ranks:
        return False
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
    nearest: dict[str, PublishedResult] = {}
    for result in sorted(results, key=lambda result: _distance(result, params)):
        nearest.setdefault(result.run.id, result)
    return list(nearest.values())
