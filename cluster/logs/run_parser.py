"""A parser of logs in which one run of a tool follows another."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from cluster.logs.parsers import Parser, ResultBuilder

if TYPE_CHECKING:
    from cluster.core.model.logs import Parsed

CUT = "there is no row: it failed, or the log is cut off"


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
