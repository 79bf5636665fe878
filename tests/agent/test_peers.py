"""The other hosts of a job, as the first one sees them."""

import subprocess
from pathlib import Path

import msgspec
import pytest

from cluster.agent.peers import FILE, Peer, PeerList, Peers


class Clock:
    """Time that passes only while somebody waits."""

    now = 0.0


class DeadHost:
    """An ssh to a host that never answers."""

    stderr = None

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.killed = False

    def poll(self) -> None:
        """Run on."""

    def communicate(self, timeout: float | None = None) -> None:
        if self.killed:
            return
        assert timeout is not None
        self._clock.now += timeout
        raise subprocess.TimeoutExpired("ssh", timeout)

    def kill(self) -> None:
        self.killed = True


@pytest.mark.parametrize("dead", [1, 7])
def test_hosts_that_are_dead_share_one_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dead: int
) -> None:
    """Seven take no longer than one."""
    hosts = tuple(Peer(name=f"{n}.mpi.x", address=f"10.0.0.{n}") for n in range(dead))
    (tmp_path / FILE).write_bytes(msgspec.json.encode(PeerList(peers=hosts)))
    clock, probes = Clock(), []

    def begin(*_: str) -> DeadHost:
        probes.append(DeadHost(clock))
        return probes[-1]

    peers = Peers(tmp_path)
    monkeypatch.setattr(peers, "_ssh", begin)
    monkeypatch.setattr("time.monotonic", lambda: clock.now)
    peers.connect()
    peers.kill_ranks(5.0)

    assert clock.now == 5.0
    assert all(probe.killed for probe in probes[dead:])
    assert len(probes) == 2 * dead
