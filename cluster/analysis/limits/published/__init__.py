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
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Literal

import msgspec

from cluster.core.errors import SpecError
from cluster.core.model.measurements import Definition
from cluster.core.model.value import Scalar, Value
from cluster.core.units import parse_size

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
        at = line or self.line
        return f"{self.url}/blob/{self.commit}/{self.path}{f'#L{at}' if at else ''}"


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


class _Definitions(Value, frozen=True, kw_only=True):
    definition: tuple[Definition, ...]


@cache
def runs() -> tuple[PublishedRun, ...]:
    """Return all published runs, in the order of the files."""
    return tuple(run for name in FILES for run in read(_text(name), name))


@cache
def results_of(definition: str) -> tuple[PublishedResult, ...]:
    """Return every point of the published runs of one definition.

    Only the entries that name it are read: a whole command waits for that.
    """
    runs = (run for name in FILES for run in _entries_with(definition, name))
    return points(run for run in runs if run.definition == definition)


def _entries_with(words: str, name: str) -> tuple[PublishedRun, ...]:
    """Read the entries of a file that have some words in them."""
    _, *entries = _text(name).split(ENTRY)
    chosen = [f"{ENTRY}{entry}" for entry in entries if words in entry]
    return read("".join(chosen), name) if chosen else ()


@cache
def results() -> tuple[PublishedResult, ...]:
    """Return every point of every published run."""
    return points(runs())


@cache
def definitions() -> dict[str, Definition]:
    """Return the definitions of what was published, by their ids."""
    entries = msgspec.toml.decode(_text(DEFINITIONS), type=_Definitions).definition
    return {definition.id: definition for definition in entries}


@cache
def thresholds() -> dict[str, Threshold]:
    """Return the thresholds, by what they are for."""
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


def _size(run: PublishedRun, point: Point) -> int:
    try:
        return parse_size(point.size) if point.size else 0
    except SpecError as error:
        raise SpecError(f"{run.id}: {error.what}", remedy=error.remedy) from error


@cache
def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
