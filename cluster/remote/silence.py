"""Whether a long command that prints something regularly has fallen silent."""

import threading
import time
from collections.abc import Callable
from typing import Self


class Silence:
    """Calls `end` once, in another thread, if `restart` is not called for some seconds in a block.

    `came` says whether that happened.
    """

    def __init__(self, seconds: float, end: Callable[[], object]) -> None:
        self._seconds = seconds
        self._end = end
        self._last = 0.0
        self._over = threading.Event()
        self.came = False

    def __enter__(self) -> Self:
        self.restart()
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def restart(self) -> None:
        self._last = time.monotonic()

    def _listen(self) -> None:
        while (remaining := self._last + self._seconds - time.monotonic()) > 0:
            if self._over.wait(remaining):
                return
        self.came = True
        self._end()
