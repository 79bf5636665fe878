"""SSH connections by Fabric on paramiko: jump hosts, connecting step by step, keepalives."""

import base64
import contextlib
import functools
import hashlib
import logging
import shlex
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast

import fabric
import paramiko
from paramiko.auth_strategy import AuthFailure, AuthSource, AuthStrategy, InMemoryPrivateKey
from paramiko.packet import Packetizer

from cluster.core.errors import STATES, Unreachable
from cluster.core.model.hosts import Access
from cluster.core.state.files import text_of
from cluster.remote.parallel import start
from cluster.remote.ssh import openssh_files

CONNECT_TIMEOUT = 10.0  # seconds for one step of one attempt
KEEPALIVE = 3  # seconds of silence, after which a keepalive is sent
# Seconds without any packet, after which a connection is closed: three keepalives got no answer.
# A dead network is noticed within 15 s, also by a busy machine.
SILENCE = 11
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")  # need no separate MAC
# paramiko waits for the key exchange; after the timeout it continues, and fails with this message.
NEVER_BEGAN = "No existing session"
NO_BANNER = "Error reading SSH protocol banner"  # after a timeout, or if the connection ends

# Errors are raised; without this, paramiko would print them as well.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


def route(access: Access) -> list[fabric.Connection]:
    """Return the connections to make, each through the one before it; the last one is to the host.

    Fabric could connect to jump hosts itself, but would accept any host key there, and use several
    in the wrong order. Unreachable: the user's settings cannot be read.
    """
    try:
        # The files are read again, but parsed once. Each connection has its own object: Fabric's is
        # empty for a moment when a value is set in it, and other threads would find no settings.
        text = openssh_files.settings(Path("~/.ssh/config").expanduser())
        text += openssh_files.settings(Path("/etc/ssh/ssh_config"))
        config = fabric.Config(lazy=True, ssh_config=_parse(text))
        target = fabric.Connection(
            access.host,
            user=access.user or None,
            port=access.port or None,
            config=config,
            gateway=False,
        )
        return [*_way_to(target, config, jumps=access.jump), target]
    except (paramiko.SSHException, ValueError) as error:
        raise Unreachable(
            f"{access.host} is not reached: ~/.ssh/config cannot be read: {error}",
            state="settings",
            remedy=f"See what ssh says of it: ssh -G {access.host}",
        ) from error


def _way_to(
    target: fabric.Connection, config: fabric.Config, way: tuple[object, ...] = (), jumps: str = ""
) -> list[fabric.Connection]:
    """Set a connection's jump hosts as in the user's settings, and return connections to them."""
    jumps = jumps or target.ssh_config.get("proxyjump") or "none"
    if jumps.lower() == "none":
        return []
    hops = [
        fabric.Connection(jump.strip().removeprefix("ssh://"), config=config, gateway=False)
        for jump in jumps.split(",")
    ]
    way = (*way, (target.host, target.port))
    if any((hop.host, hop.port) in way for hop in hops):
        return []  # `Host *` matches the jump host, too
    chain = [*_way_to(hops[0], config, way), *hops]
    for before, hop in zip(hops, [*hops[1:], target], strict=True):
        hop.gateway = before
    return chain


@functools.lru_cache(maxsize=4)
def _parse(text: str) -> paramiko.SSHConfig:
    return paramiko.SSHConfig.from_text(text)


def open_hop(
    connection: fabric.Connection, access: Access, note: Callable[[str], None], *, target: bool
) -> None:
    """Connect to a host or jump host, and verify its key (Unreachable)."""
    state = "resolving"
    place = f"{access.user}@{access.host}" if access.user else access.host  # as the user wrote it
    if not target:
        place = f"{connection.original_host} (on the way to {access.host})"

    def reach(now: str) -> None:
        nonlocal state
        state = now
        note(now)

    verifier = Verifier(connection, access, lambda: reach("authentication"), target=target)
    identity = Identity(connection, access.key if target else "")

    def begin(sock: socket.socket, **_: object) -> Transport:
        transport = Transport(sock, packetizer_class=_Packets)
        transport.prefer(verifier.kinds())
        reach("banner")
        return transport

    try:
        connection.connect_timeout = CONNECT_TIMEOUT
        connection.connect_kwargs = {
            "transport_factory": begin,
            "auth_strategy": identity,
            "banner_timeout": CONNECT_TIMEOUT,
            "auth_timeout": CONNECT_TIMEOUT,
            "channel_timeout": CONNECT_TIMEOUT,
        }
        if not connection.gateway:
            connection.connect_kwargs["sock"] = _dial(connection, reach)
        connection.client.set_missing_host_key_policy(verifier)
        connection.open()
    except Unreachable:
        raise
    except AuthFailure as error:
        results = [outcome.result for outcome in error.result]
        reason = str(results[-1]) if results else "there is no key to show"
        is_late = "timeout" in reason.lower()
        tip = "".join(f"{f} is locked by a passphrase: ssh-add {f}\n" for f in identity.locked_keys)
        raise Unreachable(
            f"{place} does not accept the login: {reason.rstrip('.')}.",
            state="authentication",
            transient=is_late,
            means=STATES["authentication"] if is_late else f"{len(results)} key(s) were shown.",
            remedy=f"{tip}Try it by hand: ssh -v {place.partition(' ')[0]}",
        ) from error
    except (OSError, EOFError, paramiko.SSHException) as error:
        unreachable = _translate(error, place, state)
        unreachable.remedy = f"Try it by hand: ssh -v -p {connection.port} {place}"
        raise unreachable from error
    connection.transport.watch()


def _dial(
    connection: fabric.Connection, note: Callable[[str], None]
) -> socket.socket | paramiko.ProxyCommand:
    """Connect by TCP to the first address that answers, or run the user's ProxyCommand."""
    if command := connection.ssh_config.get("proxycommand"):
        return paramiko.ProxyCommand(command)
    note("resolving")
    addresses = socket.getaddrinfo(connection.host, connection.port, type=socket.SOCK_STREAM)
    note("connecting")
    places = dict.fromkeys((str(address[0]), connection.port) for *_, address in addresses)
    return dial(list(places), CONNECT_TIMEOUT)


def close(chain: Sequence[fabric.Connection]) -> None:
    """Close connections, the first one first: those through it then end without waiting."""
    for connection in chain:
        transport = connection.client.get_transport()
        connection.client.close()
        sock = connection.connect_kwargs.get("sock")
        if isinstance(sock, paramiko.ProxyCommand):
            if transport:  # the process and its pipes, which paramiko would leave
                transport.join()  # its thread still reads, and signals the process once more
            sock.process.kill()
            sock.process.wait()
            for pipe in (sock.process.stdin, sock.process.stdout, sock.process.stderr):
                if pipe:
                    pipe.close()
        elif sock:
            sock.close()  # paramiko closes it only once its transport has started


def _translate(error: Exception, place: str, state: str) -> Unreachable:
    reason = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    is_late = str(error) == NO_BANNER and isinstance(error.__context__, TimeoutError)
    if is_late or str(error) == NEVER_BEGAN:
        reason = f"it does not begin to speak SSH within {CONNECT_TIMEOUT:g} s"
    match error:
        case socket.gaierror():
            return Unreachable(
                f"The name {place.rpartition('@')[2]} is not known: {reason}.",
                state="resolving",
                transient=error.errno == socket.EAI_AGAIN,
                means=STATES["resolving"],
            )
        case ConnectionRefusedError():
            return Unreachable(
                f"{place} refuses the connection.",
                state="refused",
                transient=True,
                means="It is there, but its sshd is not: it may still be booting.",
            )
        case TimeoutError() if state == "connecting":
            return Unreachable(
                f"{place} does not answer within {CONNECT_TIMEOUT:g} s.",
                state="timed out",
                transient=True,
                means=STATES["connecting"],
            )
        case OSError() if state == "connecting":
            return Unreachable(
                f"{place} cannot be reached: {reason}.",
                state="no route",
                transient=True,
                means="A route to it is missing, or a router on the way says that it is not there.",
            )
        case paramiko.ChannelException():
            return Unreachable(
                f"{place} cannot be reached from the host before it: {reason}.",
                state="refused",
                transient=True,
                means="It may still be booting, or that host blocks the connection.",
            )
    return Unreachable(
        f"{place} could not be connected: {reason}",
        state=state,
        transient=True,
        means=STATES[state],
    )


class _Packets(Packetizer):
    """paramiko's packetizer, which also counts the packets that were received."""

    count = 0

    def read_message(self) -> tuple[int, paramiko.Message]:
        message = super().read_message()
        self.count += 1
        return message


class Transport(paramiko.Transport):
    """paramiko's transport, but it prefers fast ciphers, and closes when the other end is silent.

    paramiko's own keepalives expect no answer, so a dead host is noticed only when the kernel stops
    retransmitting; and behind a jump host, the kernel sees only the connection to that one.
    """

    silent = False

    def prefer(self, key_types: Iterable[str]) -> None:
        """Prefer fast ciphers, and the types of the known host keys: a host may have several."""
        options = self.get_security_options()
        ciphers = options.ciphers
        fast = [name for name in CIPHERS if name in ciphers]
        options.ciphers = [*fast, *(name for name in ciphers if name not in fast)]
        known_types = set(key_types)
        options.key_types = sorted(
            options.key_types, key=lambda name: _plain(name) not in known_types
        )

    def watch(self) -> None:
        """Send keepalives from now on, and close the connection if no answer comes."""
        self.packetizer.set_keepalive(KEEPALIVE, self._send_keepalive)
        threading.Thread(target=self._listen, daemon=True).start()

    def _send_keepalive(self) -> None:
        message = paramiko.Message()
        message.add_byte(paramiko.common.cMSG_GLOBAL_REQUEST)
        message.add_string("keepalive@openssh.com")
        message.add_boolean(True)
        self._send_user_message(message)  # type: ignore[attr-defined]  # blocks in a rekey

    def _listen(self) -> None:
        # Seconds are counted, not read from a clock: this process may have been suspended.
        packets, silence, before = cast("_Packets", self.packetizer), 0, -1
        while self.is_alive() and silence < SILENCE:
            silence = silence + 1 if packets.count == before else 0
            before = packets.count
            self.join(1.0)
        if self.is_active():
            self.silent = True
            with suppress(OSError, EOFError, paramiko.SSHException):  # a jump host may be gone, too
                self.close()


def _plain(key_type: str) -> str:
    """Return a key's type as in known_hosts: rsa-sha2-* are signatures of a key ssh-rsa."""
    return "ssh-rsa" if key_type.startswith("rsa-sha2-") else key_type


STAGGER = 0.25  # seconds before the next address is tried as well (RFC 8305, "Happy Eyeballs")

Place = tuple[str, int]  # an address and a port


def dial(places: list[Place], seconds: float) -> socket.socket:
    """Connect to the first address that answers, tried a moment apart (OSError of the last)."""
    link = (
        _race(places, seconds) if len(places) > 1 else socket.create_connection(places[0], seconds)
    )
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def _race(places: list[Place], seconds: float) -> socket.socket:
    remaining, attempts = list(places), list[Future[socket.socket]]()
    pending: set[Future[socket.socket]] = set()
    while remaining or pending:
        if remaining:
            attempts.append(start(partial(socket.create_connection, remaining.pop(0), seconds)))
            pending.add(attempts[-1])
        result, pending = wait(pending, STAGGER if remaining else None, FIRST_COMPLETED)
        for attempt in result:
            if attempt.exception() is None:
                for other in attempts:
                    if other is not attempt:
                        other.add_done_callback(_close)  # now, or once it has connected
                return attempt.result()
    return attempts[-1].result()  # all have failed: this raises


def _close(attempt: Future[socket.socket]) -> None:
    if attempt.exception() is None:
        attempt.result().close()


KEY_FILES = ("id_ed25519", "id_ecdsa", "id_rsa")


class Verifier(paramiko.MissingHostKeyPolicy):
    """Accepts or refuses host keys; paramiko itself knows none, so it asks for every key."""

    def __init__(
        self,
        connection: fabric.Connection,
        access: Access,
        on_accept: Callable[[], None],
        *,
        target: bool,
    ) -> None:
        self._host = connection.original_host
        self._files = _known_hosts_files(connection, access, target=target)
        self._pin_file = access.known_hosts if access.pin else ""
        self._on_accept = on_accept
        alias = (target and access.alias) or connection.ssh_config.get("hostkeyalias")
        self._name = alias or openssh_files.entry(connection.host, connection.port)
        # A key that is known without a port is valid for every port, as in OpenSSH.
        self._names = [self._name] if alias else [self._name, connection.host]

    def lines(self, names: Sequence[str]) -> list[openssh_files.KnownKey]:
        texts = [text_of(Path(file)) for file in self._files]
        return [line for text in texts for n in names for line in openssh_files.matching(text, n)]

    def kinds(self) -> set[str]:
        return {line.kind for line in self.lines(self._names)}

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        del client, hostname
        with _PINNING:
            self._check(key)
        self._on_accept()

    def _check(self, key: paramiko.PKey) -> None:
        markers = [
            line.marker
            for line in self.lines(self._names)
            if (line.kind, line.key) == (key.get_name(), key.get_base64())
        ]
        if openssh_files.REVOKED in markers:
            raise Unreachable(
                f"The host key of {self._host} is revoked: {key.get_name()} {fingerprint(key)}",
                state="host key",
                means="Your known_hosts marks it as revoked; nothing was sent.",
            )
        if "" in markers:
            return
        lines = [line for line in self.lines([self._name]) if not line.marker]
        if lines:
            pinned_keys = ", ".join(_digest(base64.b64decode(line.key)) for line in lines)
            error = Unreachable(
                f"The host key of {self._host} has changed: now it is {key.get_name()} "
                f"{fingerprint(key)}",
                state="host key",
                means=f"It was {pinned_keys}. Either the host was reinstalled, "
                "or another machine answers in its place; nothing was sent.",
                remedy="If you know that it was reinstalled: "
                + shlex.join(["ssh-keygen", "-R", self._name, "-f", self._files[0]]),
            )
            error.file = self._files[0]
            raise error
        if not self._pin_file:
            raise Unreachable(
                f"The host key of {self._host} is not known: {key.get_name()} {fingerprint(key)}",
                state="host key",
                means="Somebody else could be answering in its place, so nothing was sent.",
                remedy=f"Compare it with the host's, and accept it: ssh {self._host}\n"
                "Or accept the key of the first answer, for this cluster: --option trust=first-use",
            )
        with Path(self._pin_file).open("a") as file:
            file.write(f"{self._name} {key.get_name()} {key.get_base64()}\n")


_PINNING = threading.Lock()  # two names may be one host: the second thread finds its key pinned


def _known_hosts_files(connection: fabric.Connection, access: Access, *, target: bool) -> list[str]:
    """Return the known_hosts files: the cluster's own, or else the user's; for jump hosts, both."""
    cluster_files = [access.known_hosts] if access.known_hosts else []
    if cluster_files and target:
        return cluster_files
    settings = connection.ssh_config
    user_files = settings.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2")
    system_files = settings.get(
        "globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
    )
    files = [*shlex.split(user_files), *shlex.split(system_files)]
    return cluster_files + [str(Path(file).expanduser()) for file in files]


def fingerprint(key: paramiko.PKey) -> str:
    """Return a key's fingerprint as `ssh-keygen -l` prints it: `SHA256:...`, without padding."""
    return _digest(key.asbytes())


def _digest(key: bytes) -> str:
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


class Identity(AuthStrategy):
    """Offers the user's keys, those configured for this host first; or only the file `key`."""

    def __init__(self, connection: fabric.Connection, key: str) -> None:
        super().__init__(ssh_config=connection.config.base_ssh_config)
        settings = connection.ssh_config
        defaults = [f"~/.ssh/{name}" for name in KEY_FILES]
        self._files = [
            Path(file).expanduser()
            for file in ([key] if key else settings.get("identityfile", defaults))
        ]
        self._only = bool(key) or settings.get("identitiesonly", "no").lower() == "yes"
        self._user = connection.user
        self.locked_keys: list[Path] = []

    def get_sources(self) -> Iterator[AuthSource]:
        """Return the keys one by one; the agent stays connected, as it signs."""
        keys = list(self._on_disk())
        public_keys = {key.asbytes() for key in keys} | {_public(file) for file in self._files}
        with contextlib.closing(paramiko.Agent()) as agent:
            agent_keys = agent.get_keys()
            first = [key for key in agent_keys if key.asbytes() in public_keys]
            rest = [] if self._only else [key for key in agent_keys if key not in first]
            blobs = {key.asbytes() for key in first}
            for key in (*first, *(key for key in keys if key.asbytes() not in blobs), *rest):
                yield InMemoryPrivateKey(self._user, key)

    def _on_disk(self) -> Iterator[paramiko.PKey]:
        for file in self._files:
            try:
                info = file.stat()
                yield _key(str(file), info.st_mtime_ns, info.st_size)
            except TypeError:  # of `cryptography`: the key needs a passphrase
                self.locked_keys.append(file)
            except (OSError, ValueError, paramiko.SSHException):
                continue


@functools.lru_cache(maxsize=16)
def _key(path: str, mtime: int, size: int) -> paramiko.PKey:
    del mtime, size
    return paramiko.PKey.from_path(path)


def _public(file: Path) -> bytes:
    """Return the public half from the file beside a private key, which may need a passphrase."""
    words = text_of(Path(f"{file}.pub")).split()
    try:
        return base64.b64decode(words[1])
    except (IndexError, ValueError):
        return b""
