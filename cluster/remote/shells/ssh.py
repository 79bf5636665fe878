"""SSH, by Fabric on paramiko: one connection per host, its key always verified.

The user's own `~/.ssh/config` and SSH agent apply. Commands and files go through channels of the
connection; the words of a command are always quoted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import paramiko

from cluster.core.errors import ShellError, Unreachable, on_failure
from cluster.core.model.hosts import Access, Machine
from cluster.remote.remote_shell import ENDS_WITHIN, RemoteCommand, RemoteShell
from cluster.remote.ssh import connection

if TYPE_CHECKING:
    import fabric

WINDOW = 1 << 22  # bytes that the host may send before we have read any
PACKET = 1 << 17  # bytes of a packet to us; with the default of 32 KiB, Python is the bottleneck
OPEN_ADMINISTRATIVELY_PROHIBITED = 1  # RFC 4254, 5.1
# Seconds after an exit status in which sshd, on a busy host, may not have sent all output yet.
LINGERS = 2.0
BROKEN = (OSError, EOFError, paramiko.SSHException)  # what paramiko raises if a connection ends


class SshShell(RemoteShell):
    """Runs commands on a host through one persistent connection."""

    def __init__(self, machine: Machine | None = None) -> None:
        super().__init__(machine)
        self._access = (machine and machine.access) or Access(host="127.0.0.1")
        self._chain: list[fabric.Connection] = []  # jump hosts, then the host itself
        self._connecting = threading.Lock()

    @property
    def host(self) -> str:
        return self._access.host

    def connect(self) -> None:
        self._way()

    def close(self) -> None:
        chain, self._chain = self._chain, []
        self.state = ""
        connection.close(chain)

    def begin(self, label: str, line: str, *, reads: bool = False) -> SshCommand:
        """Start a command line on the host, on a new connection if the old one is dead."""
        for is_first in (True, False):
            way = self._way()
            try:
                channel = way[-1].open_session(WINDOW, PACKET, connection.CONNECT_TIMEOUT)
                break
            except paramiko.ChannelException as error:
                raise ShellError(
                    f"{label} could not be started on {self._access.host}: {error}",
                    means="Its sshd refuses one more command on this connection.",
                    remedy="Run fewer at once, or raise MaxSessions in its sshd_config.",
                ) from error
            except BROKEN as error:
                self.close()
                if not is_first:
                    raise self._connection_error(label, way) from error
        try:
            channel.exec_command(line)
        except BROKEN as error:
            raise self._connection_error(label, way) from error
        return SshCommand(channel, lambda: self._connection_error(label, way))

    def dial(self, address: str, port: int) -> paramiko.Channel:
        """Open a channel to an address as the host sees it."""
        way = self._way()
        timeout = connection.CONNECT_TIMEOUT
        try:
            return way[-1].open_channel(
                "direct-tcpip", (address, port), ("127.0.0.1", 0), WINDOW, PACKET, timeout
            )
        except paramiko.ChannelException as error:
            if error.code != OPEN_ADMINISTRATIVELY_PROHIBITED:
                raise ConnectionRefusedError(error.text) from error
            raise ShellError(
                f"{self._access.host} forwards no ports.",
                means="Its sshd has AllowTcpForwarding no, or permits other ports only.",
                remedy="See its settings: sudo sshd -T | grep -i -e forwarding -e permitopen",
            ) from error
        except BROKEN as error:
            raise self._connection_error("forward", way) from error

    def _way(self) -> list[connection.Transport]:
        """Connect if needed; return the transports to the jump hosts and, last, to the host."""
        with self._connecting:
            chain = self._chain  # another thread may close the shell meanwhile
            if not chain or not chain[-1].is_connected:
                self.close()
                self.state = "resolving"
                chain = self._chain = connection.route(self._access)
                with on_failure(lambda: connection.close(chain)):
                    for hop in chain:
                        connection.open_hop(hop, self._access, self._note, target=hop is chain[-1])
                if self._chain is not chain:
                    connection.close(chain)
                    raise Unreachable(
                        f"The connection to {self._access.host} was given up.", state="closed"
                    )
                self.state = "ready"
            return [hop.transport for hop in chain]

    def _note(self, state: str) -> None:
        self.state = state

    def _connection_error(self, label: str, way: Sequence[connection.Transport]) -> ShellError:
        transport = way[-1]
        transport.join(0.5)  # its channels end a moment before it does
        if transport.is_active():
            reason = "it ended without an exit status, as when a signal ends the shell around it"
        elif any(hop.silent for hop in way):  # a silent jump host ends the hops behind it
            reason = f"no answer for {connection.SILENCE} s"
        else:
            reason = str(transport.get_exception() or "") or "the other end closed it"
        return Unreachable(
            f"The connection to {self._access.host} broke during {label}: {reason}.",
            state="broken",
            transient=True,
            means="Whether the command went on there is not known.",
        )


class SshCommand(RemoteCommand):
    def __init__(self, channel: paramiko.Channel, get_error: Callable[[], ShellError]) -> None:
        self.channel = channel
        self._get_error = get_error
        super().__init__()

    def close(self) -> None:
        with suppress(*BROKEN):  # the connection may be gone
            self.channel.close()

    def receive_error(self, most: int) -> bytes:
        with suppress(*BROKEN):
            return self.channel.recv_stderr(most)
        return b""

    def receive(self, most: int) -> bytes:
        try:
            return self.channel.recv(most)
        except BROKEN:
            return b""

    def receive_running(self, most: int) -> bytes:
        end = None
        self.channel.settimeout(LINGERS / 8)
        while end is None or time.monotonic() < end + LINGERS:
            try:
                return self.channel.recv(most)
            except TimeoutError:
                if self.channel.status_event.is_set():
                    end = end or time.monotonic()
            except BROKEN:
                return b""
        return b""

    def send(self, piece: bytes) -> int:
        try:
            return self.channel.send(piece)
        except BROKEN:
            return 0

    def close_input(self) -> None:
        with suppress(*BROKEN):
            self.channel.shutdown_write()

    def has_ended(self) -> bool:
        return self.channel.status_event.wait(ENDS_WITHIN)

    def end(self) -> tuple[int, str]:
        status = self.channel.recv_exit_status()
        if status < 0:
            raise self._get_error()
        return status, self.errors(LINGERS)
