"""Ports of hosts on this machine: each connection to one goes through the shell's connection."""

import socket
import threading
from contextlib import suppress
from typing import Self

from cluster.core.errors import ClusterError, ShellError, SpecError, Unreachable
from cluster.core.model.hosts import LAST_PORT
from cluster.remote.shell import Shell, Stream

LOOPBACK = "127.0.0.1"
CHUNK = 1 << 16  # bytes
LOOK_EVERY = 2.0  # seconds


class Forward:
    """A port of a host on this machine's loopback, until it or the process is closed.

    `address` is where other hosts reach it, for what does not listen at its loopback. SpecError:
    the port here is in use, or is none. ShellError: the port there does not answer.
    """

    def __init__(self, shell: Shell, host: str, address: str, port: int, local: int = 0) -> None:
        for number in (port, local or port):
            if not 1 <= number <= LAST_PORT:
                raise SpecError(f"{number} is no port: they are 1 to {LAST_PORT}.")
        self._shell = shell
        self._host = host
        self._port = port
        self._over = threading.Event()
        self._streams: set[Stream] = set()
        self._target = self._listening(address)
        self.local = local or port
        self._listener: socket.socket | None = None
        if not (shell.name == "local" and self.local == port):
            try:
                self._listener = socket.create_server((LOOPBACK, self.local))
            except OSError as error:  # it is in use, or only for the superuser
                raise SpecError(
                    f"Port {self.local} of this machine cannot be opened: {error.strerror}.",
                    remedy=f"Take another one here: cluster more forward NAME {self._port}:18888",
                ) from error
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    @property
    def address(self) -> str:
        """Where it is here, such as `127.0.0.1:8888`."""
        return f"{LOOPBACK if self._listener else self._target}:{self.local}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """Wait until it is closed (Unreachable: the host stopped answering)."""
        while not self._over.wait(LOOK_EVERY):
            try:
                self._shell.connect()
            except Unreachable as error:
                self.close()
                raise Unreachable(
                    f"Port {self._port} of {self._host} is forwarded no more: {error.what}",
                    state=error.state,
                    means=error.means,
                    remedy="Type the same again when the host is back. See it: cluster status NAME",
                ) from error

    def close(self) -> None:
        self._over.set()
        if self._listener is not None:
            _end(self._listener)
        for stream in tuple(self._streams):
            _end(stream)

    def _listening(self, address: str) -> str:
        for target in (LOOPBACK, address):
            with suppress(ConnectionError):
                _end(self._shell.dial(target, self._port))
                return target
        raise ShellError(
            f"Nothing listens at port {self._port} of {self._host}.",
            means=f"Neither {LOOPBACK} nor {address} accepts a connection there: the program has "
            "not started to listen, has ended, or listens at another port.",
            remedy="See which ports are open there: ss -ltn",
        )

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # it was closed
            while True:
                near, _ = listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        """Carry one connection; what cannot be reached is a connection that ends at once."""
        try:
            far = self._shell.dial(self._target, self._port)
        except (ClusterError, OSError):
            _end(near)
            return
        ends = {near, far}
        self._streams |= ends
        thread = threading.Thread(target=_carry, args=(far, near), daemon=True)
        thread.start()
        _carry(near, far)
        thread.join()
        self._streams -= ends
        for end in ends:
            end.close()


def _carry(source: Stream, target: Stream) -> None:
    """Pass bytes on until one end closes, then end that direction."""
    with suppress(OSError, EOFError):
        while piece := source.recv(CHUNK):
            target.sendall(piece)
    with suppress(OSError, EOFError):
        target.shutdown(socket.SHUT_WR)


def _end(stream: Stream) -> None:
    with suppress(OSError, EOFError):
        stream.shutdown(socket.SHUT_RDWR)
    stream.close()
