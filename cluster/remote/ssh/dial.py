"""TCP connections to whichever address of a host answers first."""

from __future__ import annotations

import socket
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial

from cluster.remote.threads import start

STAGGER = 0.25  # seconds before the next address is tried as well (RFC 8305, "Happy Eyeballs")

Place = tuple[str, int]  # an address and a port


def dial(places: list[Place], seconds: float) -> socket.socket:
    """Connect to the first address that answers; a dead address does not delay the others.

    Args:
        places: addresses and ports, at least one; each is tried a moment after the one before.

    Raises:
        OSError: none answers; it is the error of the last address.

    """
    made = (
        _race(places, seconds) if len(places) > 1 else socket.create_connection(places[0], seconds)
    )
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _race(places: list[Place], seconds: float) -> socket.socket:
    left, attempts = list(places), list[Future[socket.socket]]()
    pending: set[Future[socket.socket]] = set()
    while left or pending:
        if left:
            attempts.append(start(partial(socket.create_connection, left.pop(0), seconds)))
            pending.add(attempts[-1])
        done, pending = wait(pending, STAGGER if left else None, FIRST_COMPLETED)
        for attempt in done:
            if attempt.exception() is None:
                for other in attempts:
                    if other is not attempt:
                        other.add_done_callback(_close)  # now, or once it has connected
                return attempt.result()
    return attempts[-1].result()  # all have failed: this raises


def _close(attempt: Future[socket.socket]) -> None:
    if attempt.exception() is None:
        attempt.result().close()
