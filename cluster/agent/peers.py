"""The other hosts of a job, as seen from the one that starts its ranks.

An SSH connection to each of them carries no data; it breaks when the host or the network fails.
MPI itself would wait for ever. Hosts of a batch system may let nobody in by SSH: they are probed
over TCP.
"""

import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from cluster.agent.probes import Probes
from cluster.agent.protocol import AGENT
from cluster.core.model.value import Value

FILE = "peers.json"
# These timeouts are shorter than those of mpirun's connections (`ssh_mesh.CONFIG`): if mpirun
# noticed a lost host first, it would end the ranks before they have written their values.
KEEPALIVE = ("-o", "ServerAliveInterval=4", "-o", "ServerAliveCountMax=2")


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

    def lost(self) -> dict[str, str]:
        """Return names of the peers that are lost, with the messages of ssh or of the probes."""
        return self._probes.silent() | {
            peer.name: (process.stderr.read() if process.stderr else "").strip()
            for peer, process in self._connections.items()
            if process.poll() is not None
        }

    def kill_ranks(self, seconds: float) -> None:
        """End the job's ranks on all peers that can be reached."""
        words = [sys.executable, *AGENT, "halt", str(self._folder)]
        lost = self.lost()
        commands = [
            self._ssh(peer.address, shlex.join(words))
            for peer in self._connections
            if peer.name not in lost
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
