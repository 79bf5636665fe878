"""Tests of nccl-tests in a log of NCCL: a warning in a successful test is not a failure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# What nccl-tests prints around its rows: its start, where its ranks are, and how it ended.
AROUND = re.compile(
    r"^[# \t]*+(?:(nThreads?\b)|Rank +\d+ .*?\bPid +(\d+) +on +(\S+) +device"
    r"|(?:Out of bounds values|Bitwise mismatches|Avg bus bandwidth) *:(.*))"
)
AROUND_WORDS = ("nThread", " Pid ", "Out of bounds", "Bitwise mism", "Avg bus bandwidth")
GOOD = "Avg bus bandwidth"


class LoggedTest:
    """A test of nccl-tests: which processes took part, and whether it reported success.

    A test that begins before another has ended may run at the same time. Then it is not known which
    lines belong to which test, so it proves nothing.
    """

    def __init__(self, first: int, *, beside: bool) -> None:
        """Begin a test at a line; 0 if its first line is missing."""
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
        """Whether it reported success at its end."""
        return bool(self._last) and not self._failed

    def follow(self, said: re.Match[str], lineno: int) -> None:
        """Read a line before or after its rows."""
        if said[2]:
            self.processes.add(f"{said[3]}:{said[2]}")
        elif said[4] is not None:
            self._failed |= "FAILED" in said[4]
            self._last = lineno if GOOD in said[0] else self._last

    def has(self, process: str, set_up: Sequence[int]) -> bool:
        """Tell whether a process took part: it was named, or lines within set it up."""
        return process in self.processes or any(
            self._first <= number and not 0 < self._last < number for number in set_up
        )
