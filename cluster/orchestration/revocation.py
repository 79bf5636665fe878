"""Machines that are taken away while a job runs: noticed by asking their provider."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from cluster.core.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

BETWEEN = 4.0  # seconds between two questions


class RevocationWatch:
    """Asks a provider, while a block runs, whether the machines are still ours.

    Args:
        gone: gives the reason why they are not; empty while they are. None: they cannot be lost.
        stop: called once they are lost, to end what runs on them.

    Attributes:
        reason: why they are not ours any more; empty while they are.

    """

    def __init__(self, gone: Callable[[], str] | None, stop: Callable[[], object]) -> None:
        """Ask nothing yet."""
        self._gone = gone
        self._stop = stop
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.reason = ""

    def __enter__(self) -> Self:
        """Begin to ask."""
        if self._gone is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ask no more; wait until nothing is being stopped."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def ask(self) -> str:
        """Ask now.

        Returns:
            The reason; empty while the machines are ours.

        """
        if self._gone is not None and not self.reason:
            self.reason = self._gone()
        return self.reason

    def _ask(self) -> None:
        while not self._over.wait(BETWEEN):
            if self.ask():
                with suppress(ClusterError, ExceptionGroup):
                    self._stop()
                return
