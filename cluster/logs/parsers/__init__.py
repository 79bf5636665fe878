"""What other people's tools print: one file per format, pure.

A parser reads one log, line by line, and says of each line whether it is its own. So several tools
may write into one log, and none needs to hold it in memory. What the numbers are is written in the
definitions that each parser has.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from cluster.core.model.logs import Parsed, Setting
from cluster.core.model.measurements import Measurement
from cluster.core.plugins import Plugin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cluster.core.model.logs import Detail
    from cluster.core.model.measurements import Definition
    from cluster.core.model.value import Scalar

    _Series = tuple[Definition, dict[str, Scalar], int, int, list[float]]  # rank, size, values

KB, MB, GB = 1e3, 1e6, 1e9
DIGITS = 18  # of a number that fits into 64 bits
KIB, MIB, GIB = 2.0**10, 2.0**20, 2.0**30

_NUMBER = re.compile(r"[+-]?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][+-]?\d{1,3})?")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+\.\d{1,20}")
_COMMA = re.compile(r"\d{1,20},(?:\d{1,2}|\d{4,20})")


class Parser(Plugin):
    """One format; each instance reads one log."""

    folder: ClassVar[str] = "cluster.logs.parsers"

    marks: ClassVar[tuple[str, ...]]
    """Words of which at least one is in every log of this format: it is recognised by them."""

    has_rows: ClassVar[bool] = False
    """Whether it has rows of bare numbers: they are its own only if its header came last."""

    mends: ClassVar[bool] = False
    """Whether its rows are torn by the lines of others: it skims before them, and takes parts."""

    definitions: ClassVar[tuple[Definition, ...]]
    """Of all metrics that it can read: unit, direction, and what exactly the tool measured."""

    @abstractmethod
    def take(self, line: str, number: int) -> bool:
        """Read a line, if it is one of ours.

        Args:
            line: without its newline, clean.
            number: of it in the log, from 1.

        Returns:
            Whether it was understood.

        """

    def skim(self, text: str, number: int) -> tuple[str, int]:
        """Take many lines at once, where logs are too large to look at each by itself.

        Args:
            text: of many lines.
            number: of the first of them in the log, from 1.

        Returns:
            The text, in which each line that was taken is empty now, and how many these are.

        """
        del number
        return text, 0

    def take_document(self, text: str, number: int) -> bool:
        """Read a JSON document, if it is one of ours.

        Args:
            text: of it; its end may be missing.
            number: of its first line in the log, from 1.

        Returns:
            Whether it was understood.

        """
        del text, number
        return False

    @abstractmethod
    def results(self) -> tuple[Parsed, ...]:
        """Give what was read, after the last line.

        Returns:
            A result per run of the tool, in the order of the log.

        """


class ResultBuilder:
    """Collects what one run of a tool says.

    Args:
        format_: the name of the parser.
        first: the number of its first line in the log.
        title: what was run.

    """

    def __init__(self, format_: str, first: int, title: str = "") -> None:
        """Begin with nothing."""
        self.format = format_
        self.first = first
        self.title = title
        self._series: dict[tuple[object, ...], _Series] = {}
        self._notes: dict[str, None] = {}
        self._failures: dict[str, None] = {}
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
        """Add a value to its series.

        Args:
            definition: of the metric.
            value: in the definition's unit.
            params: the point.
            rank: that took it; 0 if nobody says.
            size: bytes that moved.

        """
        known = params or {}
        key = (definition.metric, rank, *known.items())
        series = self._series.get(key)
        if series is None:  # all metrics of a point may share its parameters: nobody changes them
            kept = known if isinstance(known, dict) else dict(known)
            self._series[key] = (definition, kept, rank, size, [value])
        else:
            series[-1].append(value)

    def note(self, text: str) -> None:
        """Say once what a reader of the numbers must know."""
        self._notes[text] = None

    def says(self, note: str) -> bool:
        """Tell whether a note was said."""
        return note in self._notes

    def fail(self, text: str) -> None:
        """Say once that the log records a failure."""
        self._failures[text[:500]] = None

    def on(self, device: str) -> None:
        """Say that a GPU of this model took part."""
        self._devices[device] = None

    def set(self, name: str, value: str) -> None:
        """Say what the tool or its host was set to; nothing, if the value is empty."""
        if value:
            self._settings[name] = value

    def clear(self) -> None:
        """Forget the values: they cannot be believed."""
        self._series.clear()

    @property
    def empty(self) -> bool:
        """Whether there are no values."""
        return not self._series

    def parsed(self, detail: Detail | None = None) -> Parsed:
        """Give all of it.

        Args:
            detail: what is no measurement.

        Returns:
            The result.

        """
        used = {series[0].metric: series[0] for series in self._series.values()}
        return Parsed(
            format=self.format,
            title=self.title,
            first=self.first,
            measurements=tuple(self._measurements(used)),
            definitions=tuple(used.values()),
            detail=detail,
            notes=tuple(self._notes),
            failures=tuple(self._failures),
            operation=self.operation,
            ranks=self.ranks,
            hosts=self.hosts,
            devices=tuple(self._devices),
            settings=tuple(Setting(name=k, value=v) for k, v in self._settings.items()),
        )

    def _measurements(self, used: Mapping[str, Definition]) -> Iterable[Measurement]:
        ids = {metric: definition.id for metric, definition in used.items()}  # a digest each
        for definition, params, rank, size, values in self._series.values():
            yield Measurement(
                metric=definition.metric,
                definition=ids[definition.metric],
                unit=definition.unit,
                params=params,
                rank=rank,
                host="",
                values=tuple(values),
                bytes=size,
            )


Sheet = ResultBuilder  # its name before, which plug-ins of users may import


def number(text: str) -> float | None:
    """Read a number as a tool printed it, in any locale.

    Args:
        text: such as `25.21`, `1e-06`, `1,234.5` or `25,21`.

    Returns:
        The number; none if it is no finite number, or if nobody can tell whether its comma is a
        decimal one (`1,234`).

    """
    if _NUMBER.fullmatch(text) is None:
        if _GROUPED.fullmatch(text):
            text = text.replace(",", "")
        elif _COMMA.fullmatch(text):
            text = text.replace(",", ".")
        else:
            return None
    value = float(text)
    return value if math.isfinite(value) else None


def count(text: str) -> int | None:
    """Read a whole number that is not negative.

    Args:
        text: such as `8`.

    Returns:
        The number; none if it is not one, or too long.

    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None


def numbers(texts: Iterable[str]) -> list[float] | None:
    """Read numbers.

    Args:
        texts: of them.

    Returns:
        The numbers; none if one of them is not.

    """
    values = [number(text) for text in texts]
    found = [value for value in values if value is not None]
    return found if len(found) == len(values) else None
