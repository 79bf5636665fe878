"""Connections from the first host to the agents of all hosts, one for each."""

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
START_WITHIN = 30.0  # seconds for an agent to be ready
AT_ONCE = 32  # agents that start: connections of more may time out where a host has few cores
KEEPALIVE = (
    *("-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=2"),
    *("-o", "ConnectTimeout=5"),
)
MOST_READ = 1 << 16


class HostLinks:
    """Agents on all hosts, and the connections to them.

    Args:
        addresses: of the hosts; the first one is this host.
        ssh_config: for OpenSSH's client; empty if all hosts are this one.
        reach: inside of an allocation, the words that run a program on each host, by its number.

    Attributes:
        lost: for each lost host, by its number, the reason why it is lost.

    """

    def __init__(
        self, addresses: Sequence[str], ssh_config: str, reach: Sequence[Sequence[str]] = ()
    ) -> None:
        self.lost: dict[int, str] = {}
        self._addresses = addresses
        self._ssh_config = ssh_config
        self._reach = reach
        self._selector = selectors.DefaultSelector()
        self._stderr = [tempfile.TemporaryFile() for _ in addresses]  # noqa: SIM115 - open to the end
        self._agents: list[subprocess.Popen[bytes]] = []  # in the order of the hosts
        self._rests = [b""] * len(addresses)

    def _start(self) -> None:
        """Start the agent of the next host."""
        number = len(self._agents)
        words = [sys.executable, *AGENT]
        if self._ssh_config and number:
            ssh = ("ssh", "-F", self._ssh_config, *KEEPALIVE)
            words = [*ssh, self._addresses[number], "exec", "python3", *AGENT]
        elif self._reach and number:
            words = [*self._reach[number], *words]
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr[number],
        )
        self._selector.register(_pipe(process.stdout), selectors.EVENT_READ, number)
        self._agents.append(process)

    def __enter__(self) -> Self:
        """Start an agent on each host, and wait until all are ready, or are lost."""
        deadlines: dict[int, float] = {}  # of agents that are not ready
        while deadlines or len(self._agents) < len(self._addresses):
            while len(deadlines) < AT_ONCE and len(self._agents) < len(self._addresses):
                deadlines[len(self._agents)] = time.monotonic() + START_WITHIN
                self._start()
            for number, answer in self.answers(min(deadlines.values()) - time.monotonic()):
                if isinstance(answer, Ready):
                    deadlines.pop(number, None)
            for number in [n for n, end in deadlines.items() if end < time.monotonic()]:
                self.give_up(number, f"it did not answer within {START_WITHIN:g} s")
            deadlines = {n: end for n, end in deadlines.items() if n not in self.lost}
        return self

    def __exit__(self, *error: object) -> None:
        """End all agents, by closing their input."""
        for process in self._agents:
            _pipe(process.stdin).close()
        for process in self._agents:
            try:
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def send(self, number: int, order: Order) -> None:
        """Send an order to a host, unless it is lost."""
        if number in self.lost:
            return
        pipe = _pipe(self._agents[number].stdin)
        try:
            pipe.write(msgspec.json.encode(order) + b"\n")
            pipe.flush()
        except OSError:
            self.give_up(number, self._why(number))

    def answers(self, seconds: float) -> Iterator[tuple[int, Answer]]:
        """Wait for answers of the agents, and give those that came.

        Args:
            seconds: to wait at most.

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
        """Record that a host is lost, and end the connection to it."""
        if number not in self.lost:
            self.lost[number] = f"host:{number} is lost: {why}"
            self._selector.unregister(_pipe(self._agents[number].stdout))
            self._agents[number].kill()

    def _why(self, number: int) -> str:
        """Return the last line that its connection wrote to standard error."""
        file = self._stderr[number]
        file.seek(0)
        lines = file.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its connection ended"


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("an agent has both pipes")
    return pipe
