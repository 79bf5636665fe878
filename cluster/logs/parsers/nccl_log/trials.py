"""Tests of nccl-tests in a log of NCCL: what they outlived was no failure."""

from __future__ import annotations

import re

# What nccl-tests says around its rows: that it begins, where its ranks are, and how it ended.
AROUND = re.compile(
    r"^[# \t]*+(?:(nThreads?\b)|Rank +\d+ .*?\bPid +(\d+) +on +(\S+) +device"
    r"|(?:Out of bounds values|Bitwise mismatches|Avg bus bandwidth) *:(.*))",
    re.MULTILINE,
)
AROUND_WORDS = ("nThread", " Pid ", "Avg bus bandwidth")
GOOD = "Avg bus bandwidth"


class LoggedTest:
    """A test of nccl-tests: which processes took part, and whether it said that it succeeded.

    One that begins before another has ended may run beside it: nobody can tell whose lines are
    whose, so it proves nothing.
    """

    def __init__(self, first: int, *, beside: bool) -> None:
        """Begin a test.

        Args:
            first: the number of its first line; 0 if that is missing.
            beside: another test is still open.

        """
        self._first = first
        self._last = 0  # its last line; 0 until it comes
        self._failed = beside
        self.processes: set[str] = set()

    @property
    def is_open(self) -> bool:
        """Whether its last line is still to come."""
        return not self._last

    @property
    def succeeded(self) -> bool:
        """Whether it said so at its end."""
        return bool(self._last) and not self._failed

    def follow(self, said: re.Match[str], number: int) -> None:
        """Read a line around its rows."""
        if said[2]:
            self.processes.add(f"{said[3]}:{said[2]}")
        elif said[4] is not None:
            self._failed |= "FAILED" in said[4]
            self._last = number if GOOD in said[0] else self._last

    def meet(self, process: str, number: int) -> None:
        """Count a process in whose set-up was complete while the test ran."""
        if self._first <= number and not 0 < self._last < number:
            self.processes.add(process)
