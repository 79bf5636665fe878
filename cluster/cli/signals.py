"""What SIGINT and SIGTERM do to the command: docs/adr/0019-signals.md."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from typing import NamedTuple

SAME = 1.0  # seconds within which a second Ctrl-C is the first one, pressed twice
AGAIN = 0.1  # seconds until the main thread is interrupted again
WAKE = signal.SIGURG  # ignored by default, and no library that we use handles it


class Received(NamedTuple):
    """A signal that came, and when, in seconds of the monotonic clock."""

    number: int
    at: float


def handle() -> list[Received]:
    """Let SIGTERM interrupt as Ctrl-C does, and let no child process inherit an ignored SIGINT.

    A second signal would interrupt the clean-up that the first one began. So a SIGTERM interrupts
    only if it is the first signal; but a Ctrl-C later than `SAME` interrupts again, because the
    user does not want to wait. Signals are added to the returned list when they come.
    """
    events: list[Received] = []

    def interrupt(number: int, _: object) -> None:
        now = time.monotonic()
        repeat = number == signal.SIGINT and all(now - earlier.at >= SAME for earlier in events)
        interrupts = not events or repeat
        events.append(Received(number, now))
        if interrupts:
            raise KeyboardInterrupt("SIGTERM was received." if number == signal.SIGTERM else "")

    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    elif signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Unlike SIG_IGN, a function that does nothing ends with exec: programs get the default.
        signal.signal(signal.SIGINT, lambda *_: None)
    _wake_main_thread()
    _send_again_what_is_dropped(events)
    return events


def _send_again_what_is_dropped(events: list[Received]) -> None:
    """Interrupt again if the exception came where Python drops it, such as in a `__del__`."""
    hook = sys.unraisablehook
    main = threading.main_thread().ident or 0

    def unraisable(event: sys.UnraisableHookArgs) -> None:
        if events and event.exc_type is KeyboardInterrupt:
            number = events.pop().number
            threading.Timer(AGAIN, signal.pthread_kill, (main, number)).start()
        else:
            hook(event)

    sys.unraisablehook = unraisable


def _wake_main_thread() -> None:
    """Let a signal interrupt the main thread also when it came a moment before a blocking call.

    Python only notes a signal when it comes, and handles it between two instructions of the main
    thread. If it comes just before that thread blocks, or to another thread, nothing interrupts
    the call, and the signal is seen at its end, which may be never. So each signal is followed by
    others that do nothing but interrupt, until the main thread has handled them.

    Source: the documentation of `signal.set_wakeup_fd` and of the module's Python handlers.
    """
    wakes = queue.SimpleQueue[int]()  # its `put` may be interrupted by another
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(WAKE, lambda number, _: wakes.put(number))
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    main = threading.main_thread().ident or 0

    def wake() -> None:
        while numbers := os.read(reader, 512):
            if {*numbers} - {WAKE}:
                _interrupt(main, wakes)

    threading.Thread(target=wake, name="signals", daemon=True).start()


def _interrupt(main: int, wakes: queue.SimpleQueue[int]) -> None:
    """Send `WAKE` to the main thread until it has handled it, and with it all pending signals."""
    while not wakes.empty():  # of an earlier one, which was sent more than once
        wakes.get()
    pause = AGAIN
    while True:
        signal.pthread_kill(main, WAKE)
        try:
            wakes.get(timeout=pause)
        except queue.Empty:
            pause *= 2  # it is in a call of C that goes on, such as one that writes to a dead disk
        else:
            return
