"""The pairs of a fleet as a map: rows are hosts that send, columns are hosts that receive."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Self

import numpy as np
from rich.live import Live
from rich.text import Text

from cluster.cli.progress import JobProgress
from cluster.core.model.network.fleet import PairTest
from cluster.core.model.results.measurements import Measurement, Progress
from cluster.core.text.units import format_value
from cluster.fleet.pair_measurements import pair_tests

MOST = 48  # rows and columns: hosts share one where there are more
AROUND = 4  # lines of the screen that are not rows: what it is, the legend, and the cursor's
LEVELS = ((0.9, "·", "green"), (0.7, "▒", "yellow"), (0.0, "▓", "red"))  # of the best so far
LEGEND = ("{least:.0%} of the best, or more", "{least:.0%}", "less")
FAILED = ("X", "bold red")
PER_COLUMN = 2  # characters


class PairMap:
    """The values of the pairs so far; of hosts that share a row, the worst."""

    def __init__(
        self, hosts: int, *, higher: bool = True, columns: int = 200, lines: int = 100
    ) -> None:
        self._label = len(str(hosts - 1)) + 1
        fits = (columns - self._label) // PER_COLUMN, lines - AROUND
        self.side = max(1, min(hosts, MOST, *fits))
        self._hosts = hosts
        self._higher = higher
        self._shares = np.full((self.side, self.side), np.nan)
        self._best = 0.0
        self.tests = 0

    def add(self, tests: Iterable[PairTest]) -> None:
        for test in tests:
            self.tests += 1
            row, column = (place * self.side // self._hosts for place in (test.source, test.target))
            value = test.value or 0.0
            rate = value if self._higher or not value else 1 / value
            self._best = max(self._best, rate)
            share = self._shares[row, column]
            self._shares[row, column] = rate if np.isnan(share) else min(share, rate)

    def lines(self) -> Iterator[tuple[tuple[str, str], ...]]:
        for row in self._shares:
            yield tuple(self._cell(rate) for rate in row)

    def _cell(self, rate: float) -> tuple[str, str]:
        if np.isnan(rate):
            return " ", ""
        if rate <= 0:
            return FAILED
        share = rate / self._best
        return next((sign, style) for least, sign, style in LEVELS if share >= least)

    def text(self, title: str = "") -> Text:
        """Return the map with its colours, the numbers of the hosts, and what the signs mean."""
        grid = Text(no_wrap=True, overflow="crop")
        most = -(-self._hosts // self.side)
        legend = f"; a place: the worst of {most} x {most} pairs" if most > 1 else ""
        grid.append(f"{title}Rows send, columns receive{legend}\n")
        for row, line in enumerate(self.lines()):
            first = -(-row * self._hosts // self.side)
            grid.append(f"{first:>{self._label - 1}} ", style="dim")
            for sign, style in line:
                grid.append(sign * PER_COLUMN, style=style)
            grid.append("\n")
        for (least, sign, style), words in zip(LEVELS, LEGEND, strict=True):
            grid.append(sign, style=style).append(f" {words.format(least=least)}   ")
        return grid.append(*FAILED).append(" nothing arrived")


class CheckProgress(JobProgress):
    """Shows the map while pairs are tested: live on a terminal, a line for each step elsewhere."""

    def __init__(self, hosts: int, metric: str, *, stderr: bool) -> None:
        super().__init__(stderr=stderr, brief=True)
        self._unit = "B/s" if metric == "bandwidth" else "s"
        columns, lines = self.console.size
        self.map = PairMap(hosts, higher=self._unit == "B/s", columns=columns, lines=lines)
        self._live: Live | None = None
        self._bar = None  # the map says how far it is
        self._round = -1
        self._of_round: list[PairTest] = []

    def __enter__(self) -> Self:
        super().__enter__()
        if self.console.is_terminal:
            self._live = Live(console=self.console, transient=True)
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._show_round()
        if self._live is not None:
            self._live.stop()
        super().__exit__(*error)

    def measured(self, measurements: Sequence[Measurement]) -> None:
        tests = pair_tests(measurements)
        self.map.add(tests)
        if self._live is not None and tests:
            suffix = ", alone" if tests[-1].alone else ""
            self._live.update(self.map.text(f"Round {tests[-1].round + 1}{suffix}. "))
        for test in tests:
            if test.round != self._round:
                self._show_round()
                self._round = test.round
            self._of_round.append(test)

    def progress(self, progress: Progress) -> None:
        """Print nothing: the map shows the progress."""

    def _show_round(self) -> None:
        tests, self._of_round = self._of_round, []
        if not tests or self._live is not None:
            return
        values = sorted(test.value for test in tests if test.value)
        failures = sum(1 for test in tests if test.value == 0)
        ends = (
            " to ".join(format_value(v, self._unit) for v in (values[0], values[-1]))
            if values
            else "no value"
        )
        suffix = ", alone" if tests[0].alone else ""
        more = f", {failures} failed" if failures else ""
        self._show(f"Round {self._round + 1}: {len(tests)} tests{suffix}, {ends}{more}")
