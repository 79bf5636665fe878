"""Connections from the first host to the agents of all hosts: one each."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import tempfile
import time
from typing import IO, TYPE_CHECKING, Self

import msgspec

from cluster.measure.pairs.messages import Answer, Order, Ready

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

AGENT = ("-P", "-m", "cluster.measure.pairs.host_agent")
START_WITHIN = 30.0  # seconds for all agents to be ready
SIGNS_OF_LIFE = (
    *("-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=2"),
    *("-o", "ConnectTimeout=5"),
)
MOST_READ = 1 << 16


class HostLinks:
    """Agents on all hosts, and what they say.

    Args:
        addresses: of the hosts; the first one is this host.
        ssh_config: for OpenSSH's client; empty if all hosts are this one.

    Attributes:
        lost: why each host that is lost is lost, by its number.

    """

    def __init__(self, addresses: Sequence[str], ssh_config: str) -> None:
        """Start an agent on each host."""
        self.lost: dict[int, str] = {}
        self._selector = selectors.DefaultSelector()
        self._complaints = [tempfile.TemporaryFile() for _ in addresses]  # noqa: SIM115 - open to the end
        self._agents = [
            self._start(number, address, ssh_config) for number, address in enumerate(addresses)
        ]
        self._rests = [b""] * len(addresses)

    def _start(self, number: int, address: str, ssh_config: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, *AGENT]
        if ssh_config and number:
            words = ["ssh", "-F", ssh_config, *SIGNS_OF_LIFE, address, "exec", "python3", *AGENT]
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints[number],
        )
        self._selector.register(_pipe(process.stdout), selectors.EVENT_READ, number)
        return process

    def __enter__(self) -> Self:
        """Wait until all agents are ready, or are lost."""
        waiting = set(range(len(self._agents)))
        deadline = time.monotonic() + START_WITHIN
        while waiting and time.monotonic() < deadline:
            for number, answer in self.answers(deadline - time.monotonic()):
                if isinstance(answer, Ready):
                    waiting.discard(number)
            waiting -= self.lost.keys()
        for number in waiting:
            self.give_up(number, f"it did not answer within {START_WITHIN:g} s")
        return self

    def __exit__(self, *error: object) -> None:
        """End all agents: they end with their input."""
        for process in self._agents:
            _pipe(process.stdin).close()
        for process in self._agents:
            try:
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def say(self, number: int, order: Order) -> None:
        """Send an order to a host; one that is lost gets none."""
        if number in self.lost:
            return
        pipe = _pipe(self._agents[number].stdin)
        try:
            pipe.write(msgspec.json.encode(order) + b"\n")
            pipe.flush()
        except OSError:
            self.give_up(number, self._why(number))

    def answers(self, seconds: float) -> Iterator[tuple[int, Answer]]:
        """Give what the agents say; at the latest after some seconds, whether they do or not.

        Args:
            seconds: to wait.

        Yields:
            The number of a host, and its answer.

        """
        for key, _ in self._selector.select(max(0.0, seconds)):
            number: int = key.data
            data = os.read(key.fd, MOST_READ)
            if not data:
                self.give_up(number, self._why(number))
                continue
            *lines, self._rests[number] = (self._rests[number] + data).split(b"\n")
            for line in lines:
                yield number, msgspec.json.decode(line, type=Answer)

    def give_up(self, number: int, why: str) -> None:
        """Hear no more of a host, and let all know why.

        Args:
            number: of the host.
            why: it is lost.

        """
        if number not in self.lost:
            self.lost[number] = f"host:{number} is lost: {why}"
            self._selector.unregister(_pipe(self._agents[number].stdout))
            self._agents[number].kill()

    def _why(self, number: int) -> str:
        """Give the last line that its connection complained with."""
        file = self._complaints[number]
        file.seek(0)
        lines = file.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its connection ended"


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("an agent has both pipes")
    return pipe
