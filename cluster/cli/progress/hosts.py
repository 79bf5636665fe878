"""The progress of hosts that are prepared: how many are in which state, in one line."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Self

from cluster.core.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

BETWEEN_LINES = 2.0  # seconds, at least, between two lines where there is no terminal
QUIET = 1.0  # seconds before anything is shown: most waits are over by then


class HostProgress:
    """Shows the states of the hosts: one line that changes on a terminal, a few lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("") if console.is_terminal else None
        self._states: dict[str, str] = {}
        self._turn = threading.Lock()
        self._shown_at = time.monotonic() - BETWEEN_LINES + QUIET

    def __enter__(self) -> Self:
        """Return what shows it, from the first state on: a question may come before."""
        return self

    def __exit__(self, *error: object) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, host: str, state: str) -> None:
        with self._turn:
            self._states[host] = state
            line = self._line()
            if self._status is not None:
                self._status.update(line)
                self._status.start()
            elif time.monotonic() - self._shown_at >= BETWEEN_LINES:
                self._shown_at = time.monotonic()
                self._console.print(line, soft_wrap=True)

    def _line(self) -> str:
        counts = Counter(self._states.values())
        states = ", ".join(f"{count} {state}" for state, count in counts.items())
        return f"Hosts: {printable(states)}"
