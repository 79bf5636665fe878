"""The result of one run of a tool, while its log is read."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from sys import intern
from typing import NamedTuple

from cluster.core.model.logs import Detail, Parsed, Setting
from cluster.core.model.results.measurements import Definition, Measurement
from cluster.core.model.results.records import Note, NoteKind
from cluster.core.model.value import Scalar

MIXED = (
    "{} row(s) may be of another run, which began before this one and has none: the lines of two "
    "runs are mixed, and none of these rows is used"
)
FEW = 2  # failures of a kind that are all shown
_NONE: Mapping[str, Scalar] = {}
_VARIES = re.compile(r"\b0x[0-9a-fA-F]+\b|\b[\w-]*\d[\w-]*\b")  # numbers, and names of hosts


class _Series(NamedTuple):
    """Values of a metric at a point, from a rank; `size` bytes moved during each."""

    definition: Definition
    params: dict[str, Scalar]
    rank: int
    size: int
    values: array[float]

    def measurement(self) -> Measurement:
        return Measurement(
            metric=self.definition.metric,
            definition=_id(self.definition),
            unit=self.definition.unit,
            params=self.params,
            rank=self.rank,
            host="",
            values=tuple(self.values),
            bytes=self.size,
        )


class ResultBuilder:
    """Collects the result of one run of a tool."""

    def __init__(self, format_: str, first: int, title: str = "") -> None:
        self.format = intern(format_)
        self.first = first
        self.title = intern(title)  # most runs of a log have the same
        self._series: dict[tuple[object, ...], _Series] = {}
        self._is_doubted = False  # whether its rows may belong to another run
        self._notes: dict[Note, None] = {}
        self._is_whole = True  # no line of it is missing, as far as known
        self._failures: dict[str, int] = {}  # with their lines
        self._lacks = self._expects = ""
        self._devices: dict[str, None] = {}
        self._settings: dict[str, str] = {}
        self.operation = ""  # the collective, where there is one
        self.ranks = self.hosts = 0  # that took part, where the log says so

    def add(
        self,
        definition: Definition,
        value: float,
        params: Mapping[str, Scalar] | None = None,
        *,
        rank: int = 0,
        size: int = 0,
    ) -> None:
        """Add a value to its series, in the definition's unit; `size` bytes moved during it.

        The first value of a series tells the size of all.
        """
        point = params or _NONE
        key = (definition.metric, rank, *point.items())
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _Series(definition, dict(point), rank, size, array("d"))
        series.values.append(value)

    def note(self, kind: NoteKind, *values: Scalar) -> None:
        """Add a note; reports/words/notes.py has the words of each kind."""
        self._notes[Note(kind, values)] = None

    def lack(self, kind: NoteKind, *values: Scalar) -> None:
        """Add a note on lines that are missing: its figures are not whole."""
        self._is_whole = False
        self.note(kind, *values)

    def has_note(self, kind: NoteKind) -> bool:
        return any(note.kind == kind for note in self._notes)

    def fail(self, text: str, lineno: int = 0) -> None:
        """Add a failure that the log records, once."""
        self._failures.setdefault(text[:500], lineno)

    def lack_rows(self, text: str, expects: str) -> None:
        """Add the failure that there is no row, and what a row looks like, once."""
        if not self._lacks:
            self.fail(text)
            self._lacks, self._expects = text[:500], expects

    def set_device(self, device: str) -> None:
        self._devices[device] = None

    def doubt(self) -> None:
        """Record that its rows may belong to another run, as two logs are mixed."""
        self._is_doubted = True

    def set(self, name: str, value: str) -> None:
        """Record a setting of the tool or its host; an empty value is ignored."""
        if value:
            self._settings[name] = value

    def clear(self) -> None:
        """Remove the values, because they are not credible."""
        self._series.clear()

    @property
    def empty(self) -> bool:
        return not self._series

    @property
    def has_failures(self) -> bool:
        return bool(self._failures)

    def result(self, detail: Detail | None = None) -> Parsed:
        if self._is_doubted and not self.empty:
            rows = {tuple(series.params.items()) for series in self._series.values()}
            self.clear()
            self.fail(MIXED.format(len(rows)))
        failures = tuple(_without_repeats(self._failures))
        if len(failures) < len(self._failures):
            self.note("repeated", len(self._failures) - len(failures))
        definitions = {
            series.definition.metric: series.definition for series in self._series.values()
        }
        return Parsed(
            format=self.format,
            title=self.title,
            first=self.first,
            measurements=tuple(series.measurement() for series in self._series.values()),
            definitions=tuple(definitions.values()),
            detail=detail,
            notes=tuple(self._notes),
            whole=self._is_whole,
            failures=failures,
            failed_at=tuple(map(self._failures.__getitem__, failures)),
            expects=self._expects if failures == (self._lacks,) else "",
            operation=self.operation,
            ranks=self.ranks,
            hosts=self.hosts,
            devices=tuple(self._devices),
            settings=tuple(Setting(name=name, value=v) for name, v in self._settings.items()),
        )


@cache
def _id(definition: Definition) -> str:
    """Return the id of a definition, from a cache: it is a digest of a few definitions."""
    return definition.id


def kind_of(failure: str) -> str:
    """Return what several ranks, hosts or sizes have in common in a failure."""
    return _VARIES.sub("0", failure)


def _without_repeats(failures: Iterable[str]) -> Iterable[str]:
    """Return the first failure of each kind, or all of a kind with a few."""
    kinds = defaultdict(list)
    for failure in failures:
        kinds[kind_of(failure)].append(failure)
    for repeats in kinds.values():
        yield from repeats if len(repeats) <= FEW else repeats[:1]
