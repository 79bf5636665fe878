"""How much of a time this process ran or waited for a processor, as Linux counts it."""

from __future__ import annotations

import time
from pathlib import Path

SCHEDULED = Path("/proc/self/schedstat")  # ns that it ran, ns that it waited in a queue, and slices
NANO = 1e9


class ProcessorLoad:
    """What one side of a test asks of its processor.

    A side that waits for its link sleeps. One that is short of processor time runs or waits for a
    processor nearly all the time, and its rate says nothing about the link.
    """

    def __init__(self) -> None:
        self.share = 0.0
        self._began = 0.0
        self._before: float | None = None

    def begin(self) -> None:
        self._before, self._began = _demand_seconds(), time.perf_counter()

    def end(self) -> None:
        """End it; the share stays 0 where Linux does not say."""
        after, took = _demand_seconds(), time.perf_counter() - self._began
        if self._before is not None and after is not None and took > 0:
            self.share = min(1.0, (after - self._before) / took)


def _demand_seconds() -> float | None:
    """Return the seconds in which this process ran or waited for a processor."""
    try:
        ran, waited = SCHEDULED.read_text().split()[:2]
        return (int(ran) + int(waited)) / NANO
    except (OSError, ValueError):
        return None
