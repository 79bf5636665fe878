"""What SIGINT and SIGTERM do to the command: docs/adr/0019-signals.md."""

from __future__ import annotations

import os
import queue
import signal
import threading

AGAIN = 0.1  # seconds between two attempts to wake the main thread
WAKE = signal.SIGURG  # ignored by default, and no library that we use handles it


def handle() -> list[int]:
    """Let SIGTERM interrupt as Ctrl-C does, and let nobody inherit that SIGINT is ignored.

    Returns:
        Where the number of each SIGTERM goes when it comes.

    """
    received: list[int] = []

    def interrupt(number: int, _: object) -> None:
        received.append(number)
        if len(received) == 1:  # another must not interrupt the clean-up that this one begins
            raise KeyboardInterrupt(f"{signal.Signals(number).name} was received.")

    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Unlike SIG_IGN, a function that does nothing ends with exec: programs get the default.
        signal.signal(signal.SIGINT, lambda *_: None)
    wake_main_thread()
    return received


def wake_main_thread() -> None:
    """Let a signal interrupt the main thread also when it came a moment before a blocking call.

    Python only notes a signal when it comes, and handles it between two instructions of the main
    thread. If it comes just before that thread blocks, or to another thread, nothing interrupts
    the call, and the signal is seen at its end, which may be never. So each signal is followed by
    others that do nothing but interrupt, until the main thread has handled them.

    Source: the documentation of `signal.set_wakeup_fd` and of the module's Python handlers.
    """
    handled = queue.SimpleQueue[int]()  # its `put` may be interrupted by another
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(WAKE, lambda number, _: handled.put(number))
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    main = threading.main_thread().ident or 0

    def wake() -> None:
        while numbers := os.read(reader, 512):
            if {*numbers} - {WAKE}:
                _wake(main, handled)

    threading.Thread(target=wake, name="signals", daemon=True).start()


def _wake(main: int, handled: queue.SimpleQueue[int]) -> None:
    """Interrupt the main thread until it has handled that; signals that came before are, too."""
    while not handled.empty():  # of an earlier one, which was sent more than once
        handled.get()
    while True:
        signal.pthread_kill(main, WAKE)
        try:
            handled.get(timeout=AGAIN)
        except queue.Empty:
            continue
        return
