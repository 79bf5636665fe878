"""Remote commands that a process of this machine carries, such as `srun` or `kubectl exec`."""

import contextlib
import os
import subprocess
import threading
from collections.abc import Sequence
from typing import IO

from cluster.core.errors import ShellError
from cluster.core.model.hosts import Machine
from cluster.remote.remote_shell import ENDS_WITHIN, RemoteCommand, RemoteShell

TERMINATES_WITHIN = 2.0  # seconds for the process to end its command after SIGTERM


class ProcessShell(RemoteShell):
    """A shell each of whose commands is a process of this machine."""

    def __init__(self, machine: Machine | None = None) -> None:
        super().__init__(machine)
        self.commands: set[ProcessCommand] = set()
        self.lock = threading.Lock()

    def close(self) -> None:
        """End all commands that run."""
        with self.lock:
            running = tuple(self.commands)
        self.state = ""
        for command in running:
            command.close()


class ProcessCommand(RemoteCommand):
    def __init__(
        self,
        shell: ProcessShell,
        label: str,
        words: Sequence[str],
        *,
        keeps_input: bool,
        remedy: str,
    ) -> None:
        try:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise ShellError(
                f"{label} could not be started on {shell.host}: {error.strerror}: "
                f"{error.filename}.",
                remedy=remedy,
            ) from error
        self.shell = shell
        self._keeps_input = keeps_input
        super().__init__()
        with shell.lock:
            shell.commands.add(self)

    def close(self) -> None:
        """End the process, which ends the command; then close the streams."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(TERMINATES_WITHIN)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        # A connection that several sessions share has our streams until the command has ended.
        _close(self.process.stdin)
        self.errors(ENDS_WITHIN)
        _close(self.process.stdout)
        _close(self.process.stderr)
        with self.shell.lock:
            self.shell.commands.discard(self)

    def receive(self, most: int) -> bytes:
        return _read(self.process.stdout, most)

    def receive_error(self, most: int) -> bytes:
        return _read(self.process.stderr, most)

    def send(self, piece: bytes) -> int:
        with contextlib.suppress(OSError, ValueError):
            if self.process.stdin is not None:
                return os.write(self.process.stdin.fileno(), piece)
        return 0

    def close_input(self) -> None:
        """Close its standard input, unless the command would be ended by that."""
        if not self._keeps_input:
            _close(self.process.stdin)

    def has_ended(self, within: float = ENDS_WITHIN) -> bool:
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            return False
        return True


def _read(stream: IO[bytes] | None, most: int) -> bytes:
    with contextlib.suppress(OSError, ValueError):  # it was closed
        return os.read(stream.fileno(), most) if stream else b""
    return b""


def _close(stream: IO[bytes] | None) -> None:
    if stream is not None:
        with contextlib.suppress(OSError):
            stream.close()
