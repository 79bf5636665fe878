"""The interface of shells: run commands and transfer files on one host."""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import ClassVar, Protocol

from cluster.core.errors import ShellError
from cluster.core.model.hosts import Completed, Machine
from cluster.core.model.value import Argv, LineCallback
from cluster.core.plugins import Plugin


class Stream(Protocol):
    """A connection: a socket, or a channel of SSH."""

    def recv(self, most: int, /) -> bytes: ...
    def sendall(self, data: bytes, /) -> None: ...
    def shutdown(self, how: int, /) -> None: ...
    def close(self) -> None: ...


class Shell(Plugin):
    """Runs commands and moves files on one host.

    Its `state` is that of connecting, one of `errors.STATES`; empty before the first attempt.

    Args:
        machine: the host; None means this machine.
    """

    folder: ClassVar[str] = "cluster.remote.shells"

    def __init__(self, machine: Machine | None = None) -> None:
        self.machine = machine
        self.state = ""

    def connect(self) -> None:
        """Connect now, if this shell needs a connection; otherwise, the first command connects.

        Unreachable: it failed; the error's `transient` tells whether trying again may help.
        """

    def close(self) -> None:
        """Close the connection and end its commands; the next command makes a new connection.

        Another thread may call it: the commands that threads wait for then end with an error.
        """

    def watch(self) -> AbstractContextManager[object]:
        """Return a block in which a long command ends with `Unreachable` once the host is silent.

        Here it does nothing: this machine does not vanish, and SSH has keepalives of its own.
        """
        return nullcontext()

    def dial(self, address: str, port: int) -> Stream:
        """Connect to a port, as a program on the host does.

        Raises:
            ConnectionError: nothing listens there.
            ShellError: the host is not reached, or lets nobody through.
        """
        host = self.machine.name if self.machine else address
        raise ShellError(
            f"No port of {host} can be forwarded: it is reached through {self.name}, not SSH.",
            remedy=f"From where SSH reaches it: ssh -L {port}:{host}:{port} LOGIN-HOST",
        )

    @abstractmethod
    def run(
        self, argv: Argv, *, timeout: float | None = None, on_line: LineCallback | None = None
    ) -> Completed:
        """Run a command to its end; the caller decides what its exit status means.

        Args:
            argv: the command, unquoted.
            timeout: seconds after which it is killed.
            on_line: called with each line of its standard output as it comes; the result then has
                no standard output.

        Returns:
            Its status and streams; status 127 means that there is no such command.

        Raises:
            ShellError: it could not be started, or did not end in time.
        """

    @abstractmethod
    def write(self, text: str, path: str, *, mode: int = 0o644) -> None:
        """Write a file on the host, atomically; missing parent folders are created.

        Args:
            text: of the file.
            path: on the host.
            mode: permissions of the file.

        Raises:
            ShellError: it could not be written.
        """

    @abstractmethod
    def put(self, path: Path, to: str, *, only: Sequence[str] | None = None) -> None:
        """Copy a file or a folder to the host, with modes; missing parent folders are created.

        Each file appears only once it is complete. Nothing on the host is ever removed, but files
        of the same name are replaced.

        Args:
            path: of a local file or folder.
            to: its path on the host; a folder that exists gets the files, and keeps its own mode.
            only: paths in the folder, each folder before what is in it; what vanished is left out.

        Raises:
            ShellError: it could not be read here, or could not be written on the host.
        """

    @abstractmethod
    def fetch(self, path: str, to: Path) -> None:
        """Download a file, or the files of a folder, with modes; each appears once it is complete.

        Args:
            path: of a file or folder on the host; links in it are followed.
            to: a local folder; it is created, and files of the same name are replaced.

        Raises:
            ShellError: it could not be read, or could not be written here.
        """

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists on the host."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a folder on the host and its content, if it exists (ShellError: it cannot be)."""
