"""The other hosts of a job, as seen from the one that starts its ranks.

An SSH connection to each of them carries no data; it breaks when the host or the network fails.
MPI itself would wait for ever. Hosts of a batch system may let nobody in by SSH: they are probed
over TCP.
"""

import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from cluster.agent.protocol import AGENT
from cluster.core.model.value import Value

FILE = "peers.json"
# These timeouts are shorter than those of mpirun's connections (`ssh_mesh.CONFIG`): if mpirun
# noticed a lost host first, it would end the ranks before they have written their values.
KEEPALIVE = ("-o", "ServerAliveInterval=4", "-o", "ServerAliveCountMax=2")
PORT = 9  # discard: closed almost everywhere, and nothing is sent to it
BETWEEN = 1.0  # seconds between two questions
ANSWERS_WITHIN = 3.0  # seconds: time for a lost packet to be sent again
AGAIN = 0.2  # seconds from a question without an answer, or without a route, to the next
SILENT = 6.0  # seconds without an answer, after which a host is lost

Place = tuple[int | str | bytes, ...]  # a socket address


class Peer(Value, frozen=True, kw_only=True):
    """Another host."""

    name: str
    address: str


class PeerList(Value, frozen=True, kw_only=True):
    """The other hosts of a job, and how they are reached."""

    peers: tuple[Peer, ...] = ()
    ssh_config: str = ""
    # whether they are probed, too: a busy sshd answers late, and some let nobody in
    probed: bool = False


class Peers:
    """Connections to the other hosts of a job."""

    def __init__(self, folder: Path, tell: Callable[[], object] = lambda: None) -> None:
        path = folder / FILE
        self._folder = folder
        self._list = (
            msgspec.json.decode(path.read_bytes(), type=PeerList) if path.exists() else PeerList()
        )
        self._connections: dict[Peer, subprocess.Popen[str]] = {}
        self._probes = Probes(tell)

    def connect(self) -> None:
        for peer in self._list.peers:
            if self._list.probed:
                self._probes.watch(peer.name, peer.address)
            if self._list.ssh_config or not self._list.probed:
                self._connections[peer] = self._ssh("-N", peer.address)

    def find_lost(self) -> dict[str, str]:
        """Return names of the peers that are lost, with the messages of ssh or of the probes."""
        return self._probes.silent() | {
            peer.name: (process.stderr.read() if process.stderr else "").strip()
            for peer, process in self._connections.items()
            if process.poll() is not None
        }

    def kill_ranks(self, seconds: float) -> None:
        words = [sys.executable, *AGENT, "halt", str(self._folder)]
        lost_hosts = self.find_lost()
        commands = [
            self._ssh(peer.address, shlex.join(words))
            for peer in self._connections
            if peer.name not in lost_hosts
        ]
        deadline = time.monotonic() + seconds  # for all together: several may be dead
        for process in commands:
            try:
                process.communicate(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()

    def disconnect(self) -> None:
        self._probes.end()
        for process in self._connections.values():
            process.kill()
            process.communicate()

    def _ssh(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["ssh", "-F", self._list.ssh_config, *KEEPALIVE, *words],  # noqa: S607 - as mpirun finds it
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )


class Probes:
    """Asks hosts again and again, one thread per host; `on_loss` is called in such a thread.

    A kernel answers a connection to a closed port at once, however busy its processes are; a host
    without power or network does not. A host that has never answered is not watched: a firewall
    may drop the question.
    """

    def __init__(self, on_loss: Callable[[], object]) -> None:
        self._on_loss = on_loss
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
                    self._on_loss()
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
