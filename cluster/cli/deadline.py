"""Work in a child, so that its answer is in time whatever it waits for."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

PIECE = 1 << 16


def raise_priority() -> None:
    """Let no other process delay this one; its threads and children have the usual priority.

    Only root may, and for less than a second of processor time: this process then waits.
    """
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def answer_by(deadline: float, work: Callable[[], bytes]) -> bytes | None:
    """Return what `work` returns; None if it does not, or not by a time of the monotonic clock.

    No signal interrupts a call of C, such as the look-up of a name, and a process that is short of
    processor time is late in any case. The child then ends by itself: it cleans up. If it fails, it
    has said why, and this process ends with its status.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)  # who reads what a command prints waits until all have closed it
        seconds = max(0.0, deadline - time.monotonic())
        silence = threading.Timer(seconds, os.dup2, (null, 2))
        silence.daemon = True
        silence.start()
        _write(writer, work())
        os._exit(0)  # threads may still wait for hosts that do not answer
    os.close(writer)

    def forward(number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(child, number)

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the child, too
    answer = b""
    while select.select([reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
        piece = os.read(reader, PIECE)
        if not piece:
            break
        answer += piece
    else:
        return None
    if answer:  # the child may still need processor time to end
        return answer
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        os._exit(status if status > 0 else 128 - status)
    return None


def _write(descriptor: int, answer: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as stream:
        stream.write(answer)
