"""Hosts that are asked over TCP whether they are alive, where no SSH leads to them.

A kernel answers a connection to a closed port at once, however busy its processes are; a host
without power or network does not. MPI and srun would wait for it: srun until slurmctld gives the
node up, which takes 300 s by default (`SlurmdTimeout`).
"""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

PORT = 9  # discard: closed almost everywhere, and nothing is sent to it
BETWEEN = 1.0  # seconds between two questions
ANSWERS_WITHIN = 3.0  # seconds: time for a lost packet to be sent again
AGAIN = 0.2  # seconds from a question without an answer, or without a route, to the next
SILENT = 6.0  # seconds without an answer, after which a host is lost

Place = tuple[int | str | bytes, ...]  # a socket address


class Probes:
    """Asks hosts again and again, one thread per host; `lost` is called in such a thread.

    A host that has never answered is not watched: a firewall may drop the question.
    """

    def __init__(self, lost: Callable[[], object]) -> None:
        self._lost = lost
        self._over = threading.Event()
        self._silent: dict[str, str] = {}

    def watch(self, name: str, address: str) -> None:
        threading.Thread(target=self._watch, args=(name, address), daemon=True).start()

    def silent(self) -> dict[str, str]:
        """Return the hosts that do not answer any more, and since when, in words."""
        return dict(self._silent)

    def end(self) -> None:
        self._over.set()

    def _watch(self, name: str, address: str) -> None:
        with suppress(OSError):  # the name is not known here: the host is not watched
            family, *_, place = socket.getaddrinfo(address, PORT, type=socket.SOCK_STREAM)[0]
            if not _answers(family, place, ANSWERS_WITHIN):
                return
            while not self._over.wait(BETWEEN):
                if not self._answers_yet(family, place):
                    self._silent[name] = f"{address} has not answered for {SILENT:g} s"
                    self._lost()
                    return

    def _answers_yet(self, family: socket.AddressFamily, place: Place) -> bool:
        """Ask until an answer comes, or until the host has been silent for `SILENT` seconds.

        The time runs from the first question, and not from the last answer: this process may have
        been suspended in between.
        """
        deadline = time.monotonic() + SILENT - BETWEEN
        while (remaining := deadline - time.monotonic()) > 0:
            if _answers(family, place, min(ANSWERS_WITHIN, remaining)) or self._over.wait(AGAIN):
                return True
        return False


def _answers(family: socket.AddressFamily, address: Place, within: float) -> bool:
    """Tell whether a host accepts or refuses a connection; either comes from a live kernel."""
    with socket.socket(family, socket.SOCK_STREAM) as asking:
        asking.settimeout(within)
        try:
            asking.connect(address)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return True
