"""Shells: run commands and transfer files on one host; one file per kind."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from cluster.core.plugins import Plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cluster.core.model.hosts import Completed, Machine


class Shell(Plugin):
    """Runs commands and moves files on one host.

    Its `state` tells how far connecting has got (one of `errors.STATES`); empty before it began.

    Args:
        machine: the host; none means the one that we are on.

    """

    folder: ClassVar[str] = "cluster.remote.shells"

    def __init__(self, machine: Machine | None = None) -> None:
        """Keep which host it is; nothing is connected yet."""
        self.machine = machine
        self.state = ""

    def connect(self) -> None:
        """Make the connection now, if there is one to make; the first command would, too.

        Raises:
            Unreachable: it could not be made; `passing` says whether trying again may help.

        """

    def close(self) -> None:
        """Let the connection go, and the commands on it; the next command makes a new one.

        It may be called while others use this shell: that ends what they wait for.
        """

    @abstractmethod
    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> Completed:
        """Run a command to its end; its exit status is for the caller to judge.

        Args:
            argv: the command, unquoted.
            timeout: seconds after which it is ended.
            on_line: called with each line of its standard output as it comes (which is then not
                kept).

        Returns:
            Its status and streams; status 127 says that there is no such command.

        Raises:
            ShellError: it could not be started, or did not end in time.

        """

    @abstractmethod
    def write(self, text: str, path: str, *, mode: int = 0o644) -> None:
        """Write a file there, atomically; folders on the way are made.

        Args:
            text: of the file.
            path: on the host.
            mode: of the file.

        Raises:
            ShellError: it could not be written.

        """

    @abstractmethod
    def put(self, path: Path, to: str) -> None:
        """Bring a file or a folder there; modes are kept, folders on the way made.

        Each file appears whole. Nothing that is there is ever removed, but files of the same name
        are replaced.

        Args:
            path: of a file or folder here.
            to: its path on the host; a folder that is there already gets the files, and keeps its
                own mode.

        Raises:
            ShellError: it could not be read here, or not be written there.

        """

    @abstractmethod
    def fetch(self, path: str, to: Path) -> None:
        """Bring a file, or the files of a folder, home; each appears whole, modes are kept.

        Args:
            path: of a file or folder on the host; links in it are followed.
            to: a folder here; it is made, and files of the same name are replaced.

        Raises:
            ShellError: it could not be read.

        """

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Tell whether there is such a file or folder.

        Args:
            path: on the host.

        Returns:
            Whether it is there.

        """

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a folder and what is in it; one that is not there is fine.

        Args:
            path: on the host.

        Raises:
            ShellError: it could not be removed.

        """
