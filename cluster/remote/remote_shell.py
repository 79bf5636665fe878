"""A shell on another host: commands and files as streams, whatever carries them."""

import contextlib
import logging
import math
import os
import shlex
import subprocess
import tarfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Self

from cluster.core.errors import ShellError
from cluster.core.model.hosts import Completed, Machine
from cluster.core.model.value import Argv, LineCallback
from cluster.remote import transfer
from cluster.remote.shell import Shell

_log = logging.getLogger(__name__)
CHUNK = 1 << 18  # bytes that are read from a stream at a time
FETCHED = 1 << 22  # bytes of a file that are read at a time
MOST_OUTPUT = 256 << 20  # bytes of a command's output that are kept in memory
MOST_ERRORS = 16 << 20  # bytes of its standard error that are kept in memory
PATIENCE = 600.0  # seconds in which a host may send as slowly as it likes
SLOWEST = 100_000  # bytes per second, on average, that it must send after them
LONGEST = 86_400.0  # seconds that a download may take
LINGERS = 0.5  # seconds after a command's end in which its last output may come
ENDS_WITHIN = 5.0  # seconds for a command to end after its last output
TERMINATES_WITHIN = 2.0  # seconds for a process here to end its command after SIGTERM
MOST_LINE = 8 << 20  # bytes of a line; longer ones are passed on in parts
PIECE = (1 << 15) - 64  # bytes of a packet that OpenSSH accepts, less its header


class RemoteCommand(ABC):
    """A running command on a host, and its three streams; a thread collects its standard error."""

    def __init__(self) -> None:
        self._errors: list[bytes] = []
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()

    def _collect(self) -> None:
        size = 0
        for piece in iter(lambda: self.receive_error(CHUNK), b""):
            size += len(piece)
            if size <= MOST_ERRORS:  # the rest is dropped: unread, it would block the command
                self._errors.append(piece)

    def errors(self, within: float | None) -> str:
        """Return its standard error, waited for at most some seconds."""
        self._reader.join(within)
        return b"".join(self._errors).decode(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Close the streams, and end what carries them."""

    @abstractmethod
    def receive(self, most: int) -> bytes:
        """Read 1 to `most` bytes of its output; none if that or the connection ended."""

    @abstractmethod
    def receive_error(self, most: int) -> bytes:
        """Read 1 to `most` bytes of its standard error; none at its end."""

    def receive_running(self, most: int) -> bytes:
        """Read its output as `receive` does, until a moment after its own end.

        What it leaves in the background may hold the output open for as long as it runs.
        """
        return self.receive(most)

    @abstractmethod
    def send(self, piece: bytes) -> int:
        """Send to its standard input; return how many bytes, 0 if the command reads no more."""

    @abstractmethod
    def close_input(self) -> None:
        """Close its standard input; if the connection is broken, `end` raises."""

    @abstractmethod
    def has_ended(self) -> bool:
        """Wait a moment for its exit status, which follows the end of its output."""

    @abstractmethod
    def end(self) -> tuple[int, str]:
        """Wait for its end (ShellError: the connection broke)."""


class RemoteShell(Shell):
    """Runs commands and moves files by the streams of commands.

    A kind of shell says how a command line is started on its host.
    """

    @property
    @abstractmethod
    def host(self) -> str:
        """The host's name, for messages."""

    @abstractmethod
    def begin(self, label: str, line: str, *, reads: bool = False) -> RemoteCommand:
        """Start a command line of the host's `sh` (ShellError: it could not be started)."""

    def run(
        self, argv: Argv, *, timeout: float | None = None, on_line: LineCallback | None = None
    ) -> Completed:
        """Run a command; if the connection breaks, that is a `ShellError`, not an exit status."""
        _log.debug("%s: %s", self.host, shlex.join(argv))
        late = threading.Event()

        def give_up() -> None:
            late.set()
            command.close()

        with self.begin(argv[0], _line(argv, timeout)) as command:
            clock = threading.Timer(timeout or 0, give_up)
            if timeout is not None:
                clock.start()
            try:
                command.close_input()
                stdout = read(iter(lambda: command.receive_running(CHUNK), b""), on_line)
                status, stderr = command.end()
            except ShellError:
                if not late.is_set():
                    raise
            finally:
                clock.cancel()
        if late.is_set():
            raise ShellError(f"{argv[0]} did not end within {timeout:g} s on {self.host}.")
        return Completed(argv=tuple(argv), status=status, stdout=stdout, stderr=stderr)

    def write(self, text: str, path: str, *, mode: int = 0o644) -> None:
        data = text.encode()
        self._deliver(
            path, transfer.file_script(path, len(data), mode), lambda out: out.write(data)
        )

    def put(self, path: Path, to: str, *, only: Sequence[str] | None = None) -> None:
        source = path.resolve()
        if source.is_dir():
            script = transfer.folder_script(to)
            self._deliver(to, script, lambda out: transfer.pack(source, out, only))
            return
        try:
            if source.exists() and not source.is_file():
                raise _failure("written", to, f"{path} is neither a file nor a folder")
            with source.open("rb") as file:
                info = source.stat()
                script = transfer.file_script(to, info.st_size, info.st_mode & 0o777)
                self._deliver(to, script, lambda out: transfer.send(file, info.st_size, out))
        except OSError as error:
            raise _failure("written", to, error.strerror or str(error)) from error

    def fetch(self, path: str, to: Path) -> None:
        """Stream a file, or a folder as one archive; special files are refused."""
        line = shlex.join(["sh", "-c", transfer.fetch_script(path)])
        with self.begin("fetch", line) as command, _Pace(command) as pace:
            command.close_input()
            reader = transfer.StreamReader(pace.receive)
            mode = reader.line().decode(errors="replace")

            def check() -> None:
                status, errors = command.end()
                if status != 0 and not transfer.only_grew(errors):
                    raise self._not_copied(path, errors.strip())

            try:
                if mode == transfer.FOLDER:
                    transfer.unpack(reader, to)
                elif mode:
                    to.mkdir(parents=True, exist_ok=True)
                    transfer.receive(reader, to / PurePosixPath(path).name, _mode(mode), good=check)
            except (OSError, ValueError, tarfile.TarError) as error:
                if not pace.came and command.has_ended():  # not one that never stops sending
                    check()  # a broken connection is the cause of a broken archive
                raise self._not_copied(path, pace.why if pace.came else str(error)) from error
            if pace.came or not command.has_ended():
                reason = pace.why if pace.came else "the host goes on sending after its end"
                raise self._not_copied(path, reason)
            check()

    def _not_copied(self, path: str, reason: str) -> ShellError:
        return _failure("copied", f"{path} of {self.host}", reason)

    def exists(self, path: str) -> bool:
        return self.run(["test", "-e", path]).status == 0

    def remove(self, path: str) -> None:
        result = self.run(["rm", "-rf", "--", path])
        if result.status != 0:
            raise _failure("removed", path, result.stderr.strip())

    def _deliver(
        self, to: str, script: str, pump: Callable[[transfer.ChunkWriter], object]
    ) -> None:
        """Run a script on the host that reads what we send, and raise if it fails."""
        reason = ""
        with self.begin("put", shlex.join(["sh", "-c", script]), reads=True) as command:
            writer = transfer.ChunkWriter(command.send, PIECE)
            try:
                pump(writer)
                writer.flush()
            except BrokenPipeError:
                pass  # the script's standard error says why
            except OSError as error:
                reason = error.strerror or str(error)
            command.close_input()
            status, errors = command.end()
        if reason or status != 0:
            raise _failure("written", to, reason or errors.strip())


class Watchdog:
    """Calls `end` once, in another thread, if the time of a block is over before the block.

    `deadline`, by the monotonic clock, is asked again and again; `came` says whether it came.
    """

    def __init__(self, deadline: Callable[[], float], end: Callable[[], object]) -> None:
        self._deadline = deadline
        self._end = end
        self._over = threading.Event()
        self.came = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _listen(self) -> None:
        while (remaining := self._deadline() - time.monotonic()) > 0:
            if self._over.wait(remaining):
                return
        self.came = True
        self._end()


class _Pace(Watchdog):
    """Times out a host that goes on sending, be it a byte at a time, or nothing at all."""

    def __init__(self, command: RemoteCommand) -> None:
        super().__init__(self._end_of_patience, command.close)
        self._command = command
        self._size = 0
        self._start = time.monotonic()

    @property
    def why(self) -> str:
        seconds = time.monotonic() - self._start
        return f"it sent {self._size:,} bytes in {seconds:.0f} s, and had not ended"

    def receive(self) -> bytes:
        piece = self._command.receive(FETCHED)
        self._size += len(piece)
        return piece

    def _end_of_patience(self) -> float:
        return self._start + min(PATIENCE + self._size / SLOWEST, LONGEST)


def _mode(text: str) -> int:
    if not text.isascii() or not text.isdigit() or set(text) & {"8", "9"}:
        raise tarfile.TarError(f"it begins with {text!r}, which is no mode of a file")
    return int(text, 8) & 0o777


def _failure(action: str, path: str, reason: str) -> ShellError:
    return ShellError(f"{path} could not be {action}: {reason}")


def _line(argv: Sequence[str], timeout: float | None) -> str:
    """Return the command line, with a timeout on the host as well."""
    # With `exit`, the shell does not exec the command, and reports a signal as 128 + N.
    inner = f"{shlex.join(argv)}; exit $?"
    if timeout is None:
        return shlex.join(["sh", "-c", inner])
    guard = shlex.join(["timeout", "-s", "KILL", str(math.ceil(timeout)), "sh", "-c", inner])
    return shlex.join(["sh", "-c", f"command -v timeout > /dev/null && exec {guard}; {inner}"])


def read(pieces: Iterable[bytes], on_line: LineCallback | None) -> str:
    """Return the output of a command; nothing of it if `on_line` gets its lines."""
    if on_line is None:
        return b"".join(_limit_output(pieces)).decode(errors="replace")
    for line in _lines(pieces):
        on_line(line.decode(errors="replace"))
    return ""


def _limit_output(pieces: Iterable[bytes]) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MOST_OUTPUT:
            raise ShellError(
                f"A command printed more than {MOST_OUTPUT >> 20} MiB, and was given up.",
                means="What a host prints is held in memory here, so there is an end to it.",
                remedy="Let it write a file, and copy that: cluster get NAME FILE FOLDER",
            )
        yield piece


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Cut a stream into lines, and long lines into parts; memory holds one part and one piece."""
    pending: list[bytes] = []
    for piece in pieces:
        first, *further = piece.split(b"\n")
        pending.append(first)
        if not further and sum(map(len, pending)) > MOST_LINE:
            yield b"".join(pending)
            pending = []
        if further:
            yield b"".join(pending)
            yield from further[:-1]
            pending = [further[-1]]
    if rest := b"".join(pending):
        yield rest


class ProcessShell(RemoteShell):
    """A shell each of whose commands is a process of this machine."""

    def __init__(self, machine: Machine | None = None) -> None:
        super().__init__(machine)
        self.commands: set[ProcessCommand] = set()
        self.lock = threading.Lock()

    def close(self) -> None:
        with self.lock:
            running = tuple(self.commands)
        self.state = ""
        for command in running:
            command.close()


class ProcessCommand(RemoteCommand):
    """A command that a process of this machine carries, such as `srun` or `kubectl exec`."""

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
