"""Machines that are taken away while a job runs: noticed by asking their provider."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from cluster.core.errors import ClusterError
from cluster.remote.threads import start

if TYPE_CHECKING:
    from collections.abc import Callable

BETWEEN = 4.0  # seconds between two questions
ANSWERS_WITHIN = 5.0  # seconds that a run which has ended waits for the answer


class RevocationWatch:
    """Asks a provider, while a block runs, whether the machines are still ours.

    Args:
        gone: gives the reason why they are not; empty while they are. None: they cannot be lost.

    Attributes:
        reason: why they are not ours any more; empty while they are.

    """

    def __init__(self, gone: Callable[[], str] | None, stop: Callable[[], object]) -> None:
        self._gone = gone
        self._stop = stop
        self._over = threading.Event()
        self._stopping = threading.Lock()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.reason = ""

    def __enter__(self) -> Self:
        """Begin to ask."""
        if self._gone is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ask no more; wait until nothing is being stopped, but not for an answer."""
        self._over.set()
        with self._stopping:
            pass

    def ask(self) -> str:
        """Ask now.

        Returns:
            The reason; empty while the machines are ours, or if no answer comes in time.

        """
        if self._gone is not None and not self.reason:
            asked = start(self._gone)
            with suppress(TimeoutError):
                self.reason = asked.result(ANSWERS_WITHIN)
        return self.reason

    def _ask(self) -> None:
        while self._gone is not None and not self._over.wait(BETWEEN):
            reason = self._gone()
            with self._stopping:
                if not reason or self._over.is_set():
                    continue
                self.reason = reason
                with suppress(ClusterError, ExceptionGroup):
                    self._stop()
                return
