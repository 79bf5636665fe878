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

from cluster.core.plugins import Plugin
from cluster.logs.results import ResultBuilder as ResultBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.core.model.logs import Parsed
    from cluster.core.model.measurements import Definition

KB, MB, GB = 1e3, 1e6, 1e9
CUT = "there is no row: it failed, or the log is cut off"
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

    def awaits(self, line: str) -> bool:
        """Tell whether a row may be the first of a table whose columns were named, and no more.

        Args:
            line: that another parser took.

        Returns:
            Whether nobody can tell whose row it is.

        """
        del line
        return False

    def take_rows(self, text: str, at: int, number: int) -> int:
        """Read rows that stand one below the other, many at once.

        It is only asked behind a line that it took, and each row that it takes must mean what
        `take` would read in it: this is the fast way for large tables.

        Args:
            text: of many lines.
            at: where a line begins in it.
            number: of that line in the log, from 1.

        Returns:
            Where the first line begins that it does not take; `at` if that is the first one.

        """
        del text, number
        return at

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


class RunParser(Parser):
    """Keeps the results of the runs that ended, and the run that is open."""

    title: ClassVar[str] = ""
    """What a run is called whose log does not say so."""

    def __init__(self) -> None:
        """Begin outside any run."""
        self._parsed: list[Parsed] = []
        self._run: ResultBuilder | None = None

    def _begin(self, number: int, title: str = "") -> ResultBuilder:
        """Begin a run, after the last one.

        Args:
            number: of its first line.
            title: what was run.

        Returns:
            The run.

        """
        self._end()
        self._run = ResultBuilder(self.name, number, title or self.title)
        return self._run

    def _open(self, number: int) -> ResultBuilder:
        """Give the open run; begin one if there is none: its first lines are missing.

        Args:
            number: of the line that belongs to it.

        Returns:
            The run.

        """
        return self._run or self._begin(number)

    def _end(self) -> None:
        if self._run is not None:
            self._finish(self._run)
            parsed = self._run.parsed()
            if parsed.measurements or parsed.failures or parsed.detail is not None:
                self._parsed.append(parsed)
        self._run = None

    def _finish(self, run: ResultBuilder) -> None:
        """Say what is missing in a run that has ended.

        Args:
            run: that has ended.

        """
        if run.empty:
            run.fail(CUT)

    def results(self) -> tuple[Parsed, ...]:
        """Give a result per run."""
        self._end()
        return tuple(self._parsed)


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
