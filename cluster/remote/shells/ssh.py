"""SSH, by Fabric on paramiko: one connection per host, its key always verified.

The user's own `~/.ssh/config` and SSH agent apply. Commands and files go through channels of the
connection; the words of a command are always quoted.
"""

from __future__ import annotations

import logging
import math
import shlex
import tarfile
import threading
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Self

import paramiko

from cluster.core.cleanup import on_failure
from cluster.core.errors import ShellError, Unreachable
from cluster.core.model.hosts import Access, Completed
from cluster.remote import transfer
from cluster.remote.shells import Shell
from cluster.remote.ssh import connection
from cluster.remote.streams import ChunkWriter, StreamReader
from cluster.remote.transfer_scripts import fetch_script, file_script, folder_script, only_grew

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import fabric

    from cluster.core.model.hosts import Machine

_log = logging.getLogger(__name__)
CHUNK = 1 << 18  # bytes that are read from a channel at a time
MOST_OUTPUT = 256 << 20  # bytes of a command's output that are kept in memory
MOST_ERRORS = 16 << 20  # bytes of its standard error that are kept in memory
ENDS_WITHIN = 5.0  # seconds for a command to end after its last output
MOST_LINE = 8 << 20  # bytes of a line; longer ones are passed on in parts
WINDOW = 1 << 22  # bytes that the host may send before we have read any
PACKET = 1 << 17  # bytes of a packet to us; with the default of 32 KiB, Python is the bottleneck
PIECE = (1 << 15) - 64  # bytes of a packet that OpenSSH accepts, less its header
BROKEN = (OSError, EOFError, paramiko.SSHException)  # what paramiko raises if a connection ends


class SshShell(Shell):
    """Runs commands on a host through one persistent connection.

    Args:
        machine: the host; it says how SSH reaches it.

    """

    def __init__(self, machine: Machine | None = None) -> None:
        """Keep the machine; the first command connects."""
        super().__init__(machine)
        self._access = (machine and machine.access) or Access(host="127.0.0.1")
        self._chain: list[fabric.Connection] = []  # jump hosts, then the host itself
        self._connecting = threading.Lock()

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> Completed:
        """Run a command; if the connection breaks, that is a `ShellError`, not an exit status."""
        _log.debug("%s: %s", self._access.host, shlex.join(argv))
        late = threading.Event()
        with self._begin(argv[0], _line(argv, timeout)) as command:
            clock = threading.Timer(timeout or 0, lambda: _give_up(command, late))
            if timeout is not None:
                clock.start()
            try:
                command.close_input()
                stdout = _read(command.receive, on_line)
                status, stderr = command.end()
            except ShellError:
                if not late.is_set():
                    raise
            finally:
                clock.cancel()
        if late.is_set():
            raise ShellError(f"{argv[0]} did not end within {timeout:g} s on {self._access.host}.")
        return Completed(argv=tuple(argv), status=status, stdout=stdout, stderr=stderr)

    def write(self, text: str, path: str, *, mode: int = 0o644) -> None:
        """Write a temporary file beside it, then rename."""
        data = text.encode()
        self._deliver(path, file_script(path, len(data), mode), lambda out: out.write(data))

    def put(self, path: Path, to: str) -> None:
        """Stream it to a temporary name, then rename; a folder that exists gets the files."""
        source = path.resolve()
        if source.is_dir():
            script = folder_script(to)
            self._deliver(to, script, lambda out: transfer.pack(source, out))
            return
        try:
            if source.exists() and not source.is_file():
                raise _failed("written", to, f"{path} is neither a file nor a folder")
            with source.open("rb") as file:
                about = source.stat()
                script = file_script(to, about.st_size, about.st_mode & 0o777)
                self._deliver(to, script, lambda out: transfer.send(file, about.st_size, out))
        except OSError as error:
            raise _failed("written", to, error.strerror or str(error)) from error

    def fetch(self, path: str, to: Path) -> None:
        """Stream a file, or a folder as one archive; special files are refused."""
        with self._begin("fetch", shlex.join(["sh", "-c", fetch_script(path)])) as command:
            command.close_input()
            reader = StreamReader(lambda: command.receive(WINDOW))
            mode = reader.line().decode(errors="replace")

            def check() -> None:
                status, said = command.end()
                if status != 0 and not only_grew(said):
                    raise _failed("copied", path, said.strip())

            try:
                if mode == transfer.FOLDER:
                    transfer.unpack(reader, to)
                elif mode:
                    to.mkdir(parents=True, exist_ok=True)
                    target = to / PurePosixPath(path).name
                    transfer.receive(reader, target, _mode(mode), good=check)
            except (OSError, tarfile.TarError) as error:
                if command.has_ended():  # not a host that never stops sending
                    check()  # a broken connection is the cause of a broken archive
                raise _failed("copied", path, str(error)) from error
            if not command.has_ended():
                raise _failed("copied", path, "the host goes on sending after its end")
            check()

    def exists(self, path: str) -> bool:
        """Run `test -e`."""
        return self.run(["test", "-e", path]).status == 0

    def remove(self, path: str) -> None:
        """Run `rm -rf`."""
        done = self.run(["rm", "-rf", "--", path])
        if done.status != 0:
            raise _failed("removed", path, done.stderr.strip())

    def connect(self) -> None:
        """Connect now."""
        self._way()

    def close(self) -> None:
        """Close the connection, or abandon the attempt to connect."""
        chain, self._chain = self._chain, []
        self.state = ""
        connection.close(chain)

    def _deliver(self, to: str, script: str, pump: Callable[[ChunkWriter], object]) -> None:
        """Run a script on the host that reads what we send, and raise if it fails."""
        why = ""
        with self._begin("put", shlex.join(["sh", "-c", script])) as command:
            writer = ChunkWriter(command.send, PIECE)
            try:
                pump(writer)
                writer.flush()
            except BrokenPipeError:
                pass  # the script's standard error says why
            except OSError as error:
                why = error.strerror or str(error)
            command.close_input()
            status, said = command.end()
        if why or status != 0:
            raise _failed("written", to, why or said.strip())

    def _begin(self, what: str, line: str) -> _Command:
        """Start a command line on the host, on a new connection if the old one is dead."""
        for again in (True, False):
            way = self._way()
            try:
                channel = way[-1].open_session(WINDOW, PACKET, connection.CONNECT_TIMEOUT)
                break
            except paramiko.ChannelException as error:
                raise self._refused(what, error) from error
            except BROKEN as error:
                self.close()
                if not again:
                    raise self._broken(what, way) from error
        try:
            channel.exec_command(line)
        except BROKEN as error:
            raise self._broken(what, way) from error
        return _Command(channel, lambda: self._broken(what, way))

    def _way(self) -> list[connection.Transport]:
        """Connect if needed; give the transports to the jump hosts and, last, to the host."""
        with self._connecting:
            chain = self._chain  # another thread may close the shell meanwhile
            if not chain or not chain[-1].is_connected:
                chain = self._connect()
            return [hop.transport for hop in chain]

    def _connect(self) -> list[fabric.Connection]:
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
        return chain

    def _note(self, state: str) -> None:
        self.state = state

    def _broken(self, what: str, way: Sequence[connection.Transport]) -> ShellError:
        transport = way[-1]
        transport.join(0.5)  # its channels end a moment before it does
        if transport.is_active():
            why = "it ended without an exit status, as when a signal ends the shell around it"
        elif any(one.silent for one in way):  # a silent jump host ends the hops behind it
            why = f"no answer for {connection.SILENCE} s"
        else:
            why = str(transport.get_exception() or "") or "the other end closed it"
        return Unreachable(
            f"The connection to {self._access.host} broke during {what}: {why}.",
            state="broken",
            transient=True,
            means="Whether the command went on there is not known.",
        )

    def _refused(self, what: str, error: paramiko.ChannelException) -> ShellError:
        return ShellError(
            f"{what} could not be started on {self._access.host}: {error}",
            means="Its sshd refuses one more command on this connection.",
            remedy="Run fewer at once, or raise MaxSessions in its sshd_config.",
        )


class _Command:
    """A running command; a thread collects its standard error.

    Args:
        channel: of the command.
        broken: makes the error for an end without an exit status.

    """

    def __init__(self, channel: paramiko.Channel, broken: Callable[[], ShellError]) -> None:
        self.channel = channel
        self._broken = broken
        self._complaints: list[bytes] = []
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the channel, and with it the command's streams."""
        with suppress(*BROKEN):  # the connection may be gone
            self.channel.close()

    def _collect(self) -> None:
        held = 0
        with suppress(*BROKEN):
            for piece in iter(lambda: self.channel.recv_stderr(CHUNK), b""):
                held += len(piece)
                if held <= MOST_ERRORS:  # the rest is dropped: unread, it would block the command
                    self._complaints.append(piece)

    def receive(self, most: int) -> bytes:
        """Read its output; empty if it or the connection ended: `end` raises for the latter."""
        try:
            return self.channel.recv(most)
        except BROKEN:
            return b""

    def send(self, piece: bytes) -> int:
        """Send the beginning of a piece; return how many bytes, 0 if the command reads no more."""
        try:
            return self.channel.send(piece)
        except BROKEN:
            return 0

    def close_input(self) -> None:
        """Close its standard input; if the connection is broken, `end` raises."""
        with suppress(*BROKEN):
            self.channel.shutdown_write()

    def has_ended(self) -> bool:
        """Wait a moment for its exit status, which follows the end of its output."""
        return self.channel.status_event.wait(ENDS_WITHIN)

    def end(self) -> tuple[int, str]:
        """Wait for its end; return its exit status and standard error."""
        status = self.channel.recv_exit_status()
        if status < 0:
            raise self._broken()
        self._reader.join()
        return status, b"".join(self._complaints).decode(errors="replace")


def _give_up(command: _Command, late: threading.Event) -> None:
    late.set()
    command.close()


def _mode(text: str) -> int:
    """Parse a file's mode as the host sent it; only the permission bits are used."""
    if not text.isascii() or not text.isdigit() or set(text) & {"8", "9"}:
        raise tarfile.TarError(f"it begins with {text!r}, which is no mode of a file")
    return int(text, 8) & 0o777


def _failed(done: str, path: str, why: str) -> ShellError:
    return ShellError(f"{path} could not be {done}: {why}")


def _line(argv: Sequence[str], timeout: float | None) -> str:
    """Give the command line, with a timeout on the host as well."""
    # With `exit`, the shell does not exec the command, and reports a signal as 128 + N.
    inner = f"{shlex.join(argv)}; exit $?"
    if timeout is None:
        return shlex.join(["sh", "-c", inner])
    guard = shlex.join(["timeout", "-s", "KILL", str(math.ceil(timeout)), "sh", "-c", inner])
    return shlex.join(["sh", "-c", f"command -v timeout > /dev/null && exec {guard}; {inner}"])


def _read(receive: Callable[[int], bytes], on_line: Callable[[str], None] | None) -> str:
    pieces = iter(lambda: receive(CHUNK), b"")
    if on_line is None:
        return b"".join(_bounded(pieces)).decode(errors="replace")
    for line in _lines(pieces):
        on_line(line.decode(errors="replace"))
    return ""


def _bounded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    held = 0
    for piece in pieces:
        held += len(piece)
        if held > MOST_OUTPUT:
            raise ShellError(
                f"A command printed more than {MOST_OUTPUT >> 20} MiB, and was given up.",
                means="What a host prints is held in memory here, so there is an end to it.",
                remedy="Let it write a file, and bring that: cluster get NAME FILE",
            )
        yield piece


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Cut a stream into lines, and long lines into parts; memory holds one part and one piece."""
    held: list[bytes] = []
    for piece in pieces:
        first, *others = piece.split(b"\n")
        held.append(first)
        if not others and sum(map(len, held)) > MOST_LINE:
            yield b"".join(held)
            held = []
        if others:
            yield b"".join(held)
            yield from others[:-1]
            held = [others[-1]]
    if rest := b"".join(held):
        yield rest
