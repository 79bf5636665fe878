"""SSH, by Fabric on paramiko: one connection per host, its key always verified.

Fabric reads the user's own `~/.ssh/config` (aliases, ports, users, identities, ProxyJump) and makes
the connection; commands and files go through channels of it. What is sent is always quoted.
"""

from __future__ import annotations

import base64
import hashlib
import io
import secrets
import shlex
import shutil
import socket
import tarfile
import threading
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import fabric
import paramiko

from cluster.errors import ShellError, Unreachable
from cluster.model import Access, Completed
from cluster.shells import Shell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster.model import Machine

CONNECT_TIMEOUT = 10.0  # seconds for one attempt
KEEPALIVE = 5  # seconds of silence, after which the other end is asked for a sign of life
CHUNK = 1 << 18  # bytes


class Ssh(Shell):
    """Runs commands on a host through one persistent connection.

    Args:
        machine: the host; it says how SSH reaches it.

    """

    def __init__(self, machine: Machine | None = None) -> None:
        """Keep which host it is; the first command connects."""
        super().__init__(machine)
        self._access = (machine and machine.access) or Access(host="127.0.0.1")
        self._connection: fabric.Connection | None = None
        self._lock = threading.Lock()

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> Completed:
        """Run a command; a connection that breaks meanwhile is a `ShellError`, not a status."""
        channel = self._command(argv)
        late = threading.Event()
        clock = threading.Timer(timeout or 0, lambda: _give_up(channel, late))
        if timeout is not None:
            clock.start()
        complaints: list[bytes] = []
        reader = threading.Thread(
            target=_drain, args=(channel.makefile_stderr("rb"), complaints), daemon=True
        )
        reader.start()
        try:
            channel.shutdown_write()
            stdout = _read(channel.makefile("rb"), on_line)
            status = channel.recv_exit_status()
            reader.join()
        except OSError as error:
            raise self._broken(argv, str(error)) from error
        finally:
            clock.cancel()
            channel.close()
        if late.is_set():
            raise ShellError(f"{argv[0]} did not end within {timeout:g} s on {self._access.host}.")
        if status < 0:
            raise self._broken(argv, "the connection broke")
        stderr = b"".join(complaints).decode(errors="replace")
        return Completed(argv=tuple(argv), status=status, stdout=stdout, stderr=stderr)

    def write(self, text: str, path: str, *, mode: int = 0o644) -> None:
        """Write beside the file, then rename."""
        target, beside = PurePosixPath(path), _beside(path)
        to, part, folder = (shlex.quote(str(word)) for word in (target, beside, target.parent))
        script = (
            f"mkdir -p -- {folder} && (umask 077 && cat > {part})"
            f" && chmod -- {mode:o} {part} && mv -fT -- {part} {to}"
            f" || {{ rm -f -- {part}; exit 1; }}"
        )
        channel = self._command(["sh", "-c", script])
        try:
            channel.sendall(text.encode())
            channel.shutdown_write()
            said = channel.makefile_stderr("rb").read().decode(errors="replace")
            status = channel.recv_exit_status()
        except OSError as error:
            raise self._broken(["write"], str(error)) from error
        finally:
            channel.close()
        if status != 0:
            raise ShellError(f"{path} could not be written: {said.strip()}")

    def put(self, path: Path, to: str) -> None:
        """Stream it as one archive into a folder beside its place, then rename.

        A folder that is there already gets the files; nothing of it is removed.
        """
        target, beside = PurePosixPath(to), _beside(to)
        name = target.name
        there, part, inner = (shlex.quote(str(word)) for word in (target, beside, beside / name))
        merge = f"cp -RpfT -- {inner} {there}"
        script = (
            f"mkdir -p -- {part} && trap {shlex.quote(f'rm -rf -- {part}')} EXIT"
            f" && tar -C {part} -xf - || exit;"
            f" if [ -d {inner} ] && [ -d {there} ]; then {merge}; exit; fi;"
            # Two names may be one host: then the folder may have come there meanwhile.
            f" mv -fT -- {inner} {there} || {{ [ -d {inner} ] && {merge}; }}"
        )
        channel = self._command(["sh", "-c", script])
        complaints: list[bytes] = []
        reader = threading.Thread(
            target=_drain, args=(channel.makefile_stderr("rb"), complaints), daemon=True
        )
        reader.start()
        why = ""
        try:
            with (
                channel.makefile_stdin("wb", CHUNK) as stream,
                tarfile.open(fileobj=stream, mode="w|", bufsize=CHUNK) as archive,
            ):
                archive.add(path, arcname=name)
                # They refer to the archive, so the stream would wait for the garbage collector,
                # whose order makes paramiko's end of it complain.
                archive.getmembers().clear()
        except OSError as error:
            why = error.strerror or str(error)
        channel.shutdown_write()
        status = channel.recv_exit_status()
        reader.join()
        channel.close()
        if why or status != 0:
            said = b"".join(complaints).decode(errors="replace").strip()
            raise ShellError(f"{to} could not be written: {why or said}")

    def fetch(self, path: str, to: Path) -> None:
        """Stream a folder as one archive; links out of it and special files are refused."""
        channel = self._command(["tar", "-C", path, "-cf", "-", "."])
        complaints: list[bytes] = []
        reader = threading.Thread(
            target=_drain, args=(channel.makefile_stderr("rb"), complaints), daemon=True
        )
        reader.start()
        try:
            channel.shutdown_write()
            with tarfile.open(fileobj=channel.makefile("rb", CHUNK), mode="r|") as archive:
                for member in archive:
                    _extract(archive, member, to)
                archive.getmembers().clear()  # as in put
            status = channel.recv_exit_status()
            reader.join()
        except (OSError, tarfile.TarError) as error:
            reader.join()
            said = b"".join(complaints).decode(errors="replace").strip() or str(error)
            raise ShellError(f"{path} could not be copied: {said}") from error
        finally:
            channel.close()
        if status != 0:
            said = b"".join(complaints).decode(errors="replace").strip()
            raise ShellError(f"{path} could not be copied: {said}")

    def exists(self, path: str) -> bool:
        """Ask test."""
        return self.run(["test", "-e", path]).status == 0

    def remove(self, path: str) -> None:
        """Ask rm."""
        done = self.run(["rm", "-rf", "--", path])
        if done.status != 0:
            raise ShellError(f"{path} could not be removed: {done.stderr.strip()}")

    def connect(self) -> None:
        """Connect now."""
        self._transport()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _command(self, argv: Sequence[str]) -> paramiko.Channel:
        # Not the last thing that this shell does, so it tells a signal as 128 + N.
        command = shlex.join(["sh", "-c", f"{shlex.join(argv)}; exit $?"])
        try:
            transport = self._transport()
            channel = transport.open_session(timeout=CONNECT_TIMEOUT)
            channel.exec_command(command)
        except (paramiko.SSHException, OSError, EOFError) as error:
            self.close()
            raise self._broken(argv, str(error) or type(error).__name__) from error
        return channel

    def _transport(self) -> paramiko.Transport:
        with self._lock:
            connection = self._connection
            if connection is None or not connection.is_connected:
                connection = self._connection = connect(self._access)
                connection.transport.set_keepalive(KEEPALIVE)
            transport: paramiko.Transport = connection.transport
            return transport

    def _broken(self, argv: Sequence[str], why: str) -> ShellError:
        return ShellError(
            f"The connection to {self._access.host} broke during {argv[0]}: {why}.",
            means="Whether the command went on there is not known.",
        )


def _beside(path: str) -> PurePosixPath:
    """Give a new name in the folder of a path.

    Raises:
        ShellError: the path names no file or folder that could be written.

    """
    target = PurePosixPath(path)
    if target.name in ("", ".."):
        raise ShellError(f"{path!r} could not be written: it names no file or folder.")
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}")


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, to: Path) -> None:
    """Write one member below a folder: files and folders only, and nothing outside of it."""
    target = to / member.name
    if ".." in target.parts or member.name.startswith("/"):
        raise tarfile.TarError(f"{member.name} would be written outside")
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
    elif member.isfile():
        source = archive.extractfile(member)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            shutil.copyfileobj(source or io.BytesIO(), file, CHUNK)
        target.chmod(member.mode & 0o777)
    else:
        raise tarfile.TarError(f"{member.name} is neither a file nor a folder")


class _Pin(paramiko.MissingHostKeyPolicy):
    """Accepts a key the first time, and writes it down: from then on it is known."""

    def __init__(self, known_hosts: str) -> None:
        self._known_hosts = known_hosts

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        """Write it down."""
        client.get_host_keys().add(hostname, key.get_name(), key)
        with Path(self._known_hosts).open("a") as file:
            file.write(f"{hostname} {key.get_name()} {key.get_base64()}\n")


class _Refuse(paramiko.MissingHostKeyPolicy):
    """Refuses a host whose key is not known, and says how it can become known."""

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        """Refuse it."""
        del client
        raise Unreachable(
            f"The host key of {hostname} is not known: {key.get_name()} {fingerprint(key)}",
            state="host key",
            means="Somebody else could be answering in its place, so nothing was sent.",
            remedy=f"Compare it with the host's, and accept it: ssh {hostname}\n"
            "Or trust whoever answers first, for this cluster: --option trust=first-use",
        )


def fingerprint(key: paramiko.PKey) -> str:
    """Give a key's fingerprint as `ssh-keygen -l` prints it.

    Args:
        key: a public key.

    Returns:
        Such as `SHA256:...`, without padding.

    """
    digest = hashlib.sha256(key.asbytes()).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def connect(access: Access) -> fabric.Connection:
    """Connect to a host whose key is known.

    Args:
        access: how it is reached.

    Returns:
        The connection, open.

    Raises:
        ShellError: it could not be reached, is not who it should be, or does not let us in.

    """
    kwargs = {"key_filename": access.key, "look_for_keys": False} if access.key else {}
    connection = fabric.Connection(
        access.host,
        user=access.user or None,
        port=access.port or None,
        connect_timeout=int(CONNECT_TIMEOUT),
        connect_kwargs={**kwargs, "banner_timeout": CONNECT_TIMEOUT},
    )
    policy = _Pin(access.known_hosts) if access.pin else _Refuse()
    connection.client.set_missing_host_key_policy(policy)
    _load_known_hosts(connection.client, access)
    try:
        connection.open()
    except ShellError:
        connection.close()
        raise
    except (OSError, EOFError, paramiko.SSHException) as error:
        connection.close()
        raise _translated(error, access) from error
    return connection


def _load_known_hosts(client: paramiko.SSHClient, access: Access) -> None:
    if access.known_hosts:
        Path(access.known_hosts).touch(mode=0o600)
        client.load_host_keys(access.known_hosts)
        return
    client.load_system_host_keys()
    everybody = Path("/etc/ssh/ssh_known_hosts")
    if everybody.exists():
        client.load_system_host_keys(str(everybody))


def _translated(error: Exception, access: Access) -> Unreachable:
    """Say what a failed attempt to connect means, and what to type."""
    where = f"{access.user}@{access.host}" if access.user else access.host
    match error:
        case paramiko.BadHostKeyException():
            return Unreachable(
                f"The host key of {where} has changed: it is {fingerprint(error.key)} now.",
                state="host key",
                means=f"It was {fingerprint(error.expected_key)}. Either the host was made anew, "
                "or somebody else answers in its place; nothing was sent.",
                remedy=f"If you know that it was made anew: ssh-keygen -R {error.hostname}",
            )
        case paramiko.AuthenticationException():
            return Unreachable(
                f"{where} does not let us in: {error}",
                state="authentication",
                remedy=f"Try it by hand: ssh -v {where}",
            )
        case socket.gaierror():
            return Unreachable(
                f"The name {access.host} is not known: {error.strerror}.", state="resolving"
            )
        case paramiko.ssh_exception.NoValidConnectionsError() | ConnectionRefusedError():
            return Unreachable(
                f"{where} refuses the connection.",
                state="refused",
                passing=True,
                means="It is there, but its sshd is not: it may still be booting.",
            )
        case TimeoutError():
            return Unreachable(
                f"{where} does not answer within {CONNECT_TIMEOUT:g} s.",
                state="timed out",
                passing=True,
                means="A firewall or a missing route swallows what we send, or the host is down.",
            )
    return Unreachable(
        f"{where} could not be connected: {str(error) or type(error).__name__}",
        state="banner",
        passing=True,
        means="Something answered, but it did not speak SSH to the end: it may still be booting.",
    )


def _read(stream: paramiko.ChannelFile, on_line: Callable[[str], None] | None) -> str:
    if on_line is None:
        return stream.read().decode(errors="replace")
    for line in stream:
        on_line(line.decode(errors="replace").rstrip("\n"))
    return ""


def _drain(stream: paramiko.ChannelFile, into: list[bytes]) -> None:
    into.extend(stream)


def _give_up(channel: paramiko.Channel, late: threading.Event) -> None:
    late.set()
    channel.close()
