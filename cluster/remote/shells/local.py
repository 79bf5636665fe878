"""This machine: subprocesses and the file system."""

import contextlib
import errno
import logging
import os
import selectors
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from cluster.core.errors import ShellError
from cluster.core.model.hosts import Completed, Machine
from cluster.core.model.value import Argv, LineCallback
from cluster.remote import transfer
from cluster.remote.remote_shell import LINGERS, read
from cluster.remote.shells import Shell
from cluster.remote.transfer import CHUNK, StreamReader

_log = logging.getLogger(__name__)
POLL = 0.2  # seconds
NOT_FOUND = 127  # exit status of every shell if there is no such command


class LocalShell(Shell):
    """Runs commands here, in sessions of their own, so that Ctrl-C does not reach them."""

    def __init__(self, machine: Machine | None = None) -> None:
        super().__init__(machine)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closings = 0
        self._lock = threading.Lock()  # of both fields above

    def close(self) -> None:
        """End all commands, also those that another thread is just starting."""
        with self._lock:
            self._closings += 1
            running = tuple(self._running)
        for process in running:
            _end(process, late=True)

    def dial(self, address: str, port: int) -> socket.socket:
        return socket.create_connection((address, port))

    def run(
        self, argv: Argv, *, timeout: float | None = None, on_line: LineCallback | None = None
    ) -> Completed:
        _log.debug("here: %s", shlex.join(argv))
        closings = self._closings
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError:
            message = f"{argv[0]}: command not found"
            return Completed(argv=tuple(argv), status=NOT_FOUND, stdout="", stderr=message)
        except OSError as error:
            raise ShellError(f"{argv[0]} could not be run: {error.strerror}.") from error
        with self._lock:
            self._running.add(process)
            is_late = self._closings != closings
        errors: list[bytes] = []
        with process:
            try:
                if is_late:
                    _end(process, late=True)
                stdout = read(_output(process, timeout, errors), on_line)
            except subprocess.TimeoutExpired as error:
                _end(process, late=True)
                raise ShellError(f"{argv[0]} did not end within {timeout:g} s.") from error
            finally:
                _end(process)
                self._running.discard(process)
        status = process.returncode if process.returncode >= 0 else 128 - process.returncode
        stderr = b"".join(errors).decode(errors="replace")
        return Completed(argv=tuple(argv), status=status, stdout=stdout, stderr=stderr)

    def write(self, text: str, path: str, *, mode: int = 0o644) -> None:
        target = Path(path)
        part = target.with_name(transfer.part_name())
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
            with os.fdopen(handle, "w") as file:
                os.fchmod(handle, mode)  # whatever the umask says
                file.write(text)
            part.replace(target)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink()
            raise _failure("written", path, error) from error

    def put(self, path: Path, to: str, *, only: Sequence[str] | None = None) -> None:
        """Copy to a temporary name beside it, then rename; a folder that exists gets the files."""
        target = Path(to)
        if target.name in ("", ".."):
            raise ShellError(f"{to!r} could not be written: it names no file or folder.")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if only is None:
                _copy(path.resolve(), target)
                return
            target.mkdir(exist_ok=True)
            for name in only:
                with contextlib.suppress(FileNotFoundError):
                    _copy(path / name, target / name, whole=False)
        except (OSError, shutil.Error) as error:
            raise _failure("written", to, error) from error

    def fetch(self, path: str, to: Path) -> None:
        source = Path(path)
        try:
            if source.is_dir():
                _fetch(source, to, transfer.Limits(to))
            else:
                to.mkdir(parents=True, exist_ok=True)
                _fetch(source, to / source.name, transfer.Limits(to))
        except (OSError, tarfile.TarError, RecursionError) as error:
            raise _failure("copied", path, error) from error

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def remove(self, path: str) -> None:
        while self.exists(path):
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                continue  # another process removes it at the same time
            except OSError as error:
                raise _failure("removed", path, error) from error


def _fetch(
    source: Path, target: Path, limits: transfer.Limits, inside: tuple[tuple[int, int], ...] = ()
) -> None:
    """Copy a file, or a folder's files, with the same limits as from other hosts.

    Links are followed, so limits are needed: a link may lead to a device, or to its own folder.
    """
    info = source.stat()
    mode, place = info.st_mode & 0o777, (info.st_dev, info.st_ino)
    if stat.S_ISREG(info.st_mode):
        limits.take(info.st_size)
        with source.open("rb") as file:
            stream = StreamReader(lambda: file.read(CHUNK))
            transfer.receive(stream, target, mode, info.st_size)
    elif place in inside:
        raise OSError(errno.ELOOP, f"{source} leads back to a folder that it is in")
    elif stat.S_ISDIR(info.st_mode):
        new = transfer.make_folder(target, limits)
        for entry in sorted(source.iterdir()):
            _fetch(entry, target / entry.name, limits, (*inside, place))
        if new:
            target.chmod(mode)
    else:
        raise OSError(errno.EINVAL, f"{source} is neither a file nor a folder")


def _copy(source: Path, target: Path, *, whole: bool = True) -> None:
    """Copy a file or a link, or a folder and what is in it, unless not `whole`.

    If it is whole, a folder that exists keeps its own mode.
    """
    if not source.is_dir() or source.is_symlink():
        part = target.with_name(transfer.part_name())
        try:
            shutil.copy2(source, part, follow_symlinks=False)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        return
    new = not target.is_dir()
    target.mkdir(exist_ok=True)
    for entry in source.iterdir() if whole else ():
        _copy(entry, target / entry.name)
    if new or not whole:
        shutil.copystat(source, target)


def _failure(action: str, path: str, error: Exception) -> ShellError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    place = f" ({name})" if (name := getattr(error, "filename", None) or path) != path else ""
    return ShellError(f"{path} could not be {action}: {reason}{place}.")


def _end(process: subprocess.Popen[bytes], *, late: bool = False) -> None:
    """Kill a command that still runs, and its children, which share its process group.

    A command that ended in time may leave children behind on purpose; a late one may not.
    """
    if late or process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _output(
    process: subprocess.Popen[bytes], timeout: float | None, errors: list[bytes]
) -> Iterator[bytes]:
    """Read the output until both streams end, or a moment after the command itself has.

    What a command leaves in the background may hold its streams open for as long as it runs.
    """
    deadline = time.monotonic() + (float("inf") if timeout is None else timeout)
    quiet_since = None
    with selectors.DefaultSelector() as selector:
        for stream in filter(None, (process.stdout, process.stderr)):
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map() and (
            quiet_since is None or time.monotonic() < quiet_since + LINGERS
        ):
            remaining = deadline - time.monotonic()
            if remaining < 0:
                raise subprocess.TimeoutExpired(process.args, timeout or 0)
            ready = selector.select(min(POLL, remaining))
            for key, _ in ready:
                piece = os.read(key.fd, CHUNK)
                if not piece:
                    selector.unregister(key.fileobj)
                if key.fileobj is process.stderr:
                    errors.append(piece)
                else:
                    yield piece
            is_quiet = not ready and process.poll() is not None
            quiet_since = (quiet_since or time.monotonic()) if is_quiet else None
    process.wait(None if timeout is None else max(0.0, deadline - time.monotonic()))
