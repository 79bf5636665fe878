"""Signals while results are downloaded."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Ignore a second Ctrl-C or SIGTERM, which would lose the values."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    here = threading.current_thread() is threading.main_thread()  # no signal comes elsewhere
    handled = {number: handler for number, handler in before.items() if here and callable(handler)}
    for number in handled:
        signal.signal(number, lambda *_: None)  # SIG_IGN would be inherited by programs
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
