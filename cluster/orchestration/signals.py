"""Handling of signals while results are downloaded."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM, which would lose the values."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    here = threading.current_thread() is threading.main_thread()  # only there are signals handled
    handled = {number: handler for number, handler in before.items() if here and callable(handler)}
    for number in handled:
        signal.signal(number, lambda *_: None)  # child processes would inherit SIG_IGN
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
