"""TCP connections to whichever address of a host answers first."""

from __future__ import annotations

import queue
import socket
import threading

STAGGER = 0.25  # seconds before the next address is tried, too (RFC 8305, "Happy Eyeballs")

Place = tuple[str, int]  # an address and a port


def dial(places: list[Place], seconds: float) -> socket.socket:
    """Connect to the first address that answers; one that is dead holds up no other.

    Args:
        places: at least one; each is tried a moment after the one before.
        seconds: for each of them.

    Returns:
        The connection, which sends small packets at once.

    Raises:
        OSError: none answers; what the last one failed of.

    """
    made = (
        _race(places, seconds) if len(places) > 1 else socket.create_connection(places[0], seconds)
    )
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _race(places: list[Place], seconds: float) -> socket.socket:
    race = _Race(seconds)
    left, failed, error = list(places), 0, OSError()
    while failed < len(places):
        if left:
            threading.Thread(target=race.attempt, args=(left.pop(0),), daemon=True).start()
        try:
            answer = race.answers.get(timeout=STAGGER if left else None)
        except queue.Empty:
            continue
        if isinstance(answer, socket.socket):
            race.end()
            return answer
        failed, error = failed + 1, answer
    raise error


class _Race:
    """Attempts at once, of which one is kept.

    Args:
        seconds: for each of them.

    """

    def __init__(self, seconds: float) -> None:
        self.answers: queue.SimpleQueue[socket.socket | OSError] = queue.SimpleQueue()
        self._seconds = seconds
        self._lock = threading.Lock()
        self._over = False

    def attempt(self, place: Place) -> None:
        """Connect, and give the connection or the failure; what comes too late is closed."""
        try:
            made = socket.create_connection(place, timeout=self._seconds)
        except OSError as error:
            self.answers.put(error)
            return
        with self._lock:
            if self._over:
                made.close()
            else:
                self.answers.put(made)

    def end(self) -> None:
        """Close what else has answered, or will."""
        with self._lock:
            self._over = True
            while not self.answers.empty():
                late = self.answers.get()
                if isinstance(late, socket.socket):
                    late.close()
