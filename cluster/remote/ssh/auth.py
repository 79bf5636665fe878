"""SSH authentication: host keys, which are always verified, and the user's keys."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import shlex
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko
from paramiko.auth_strategy import AuthStrategy, InMemoryPrivateKey

from cluster.core.errors import Unreachable
from cluster.remote.ssh import openssh_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import fabric
    from paramiko.auth_strategy import AuthSource

    from cluster.core.model.hosts import Access

KEY_FILES = ("id_ed25519", "id_ecdsa", "id_rsa")


class Verifier(paramiko.MissingHostKeyPolicy):
    """Accepts or refuses host keys; paramiko itself knows none, so it asks for every key."""

    def __init__(
        self,
        connection: fabric.Connection,
        access: Access,
        accepted: Callable[[], None],
        *,
        target: bool,
    ) -> None:
        self._host = connection.original_host
        self._files = _known_hosts_files(connection, access, target=target)
        self._pinned = access.known_hosts if access.pin else ""
        self._accepted = accepted
        alias = (target and access.alias) or connection.ssh_config.get("hostkeyalias")
        self._name = alias or openssh_files.entry(connection.host, connection.port)
        # A key that is known without a port is valid for every port, as in OpenSSH.
        self._names = [self._name] if alias else [self._name, connection.host]

    def lines(self, names: Sequence[str]) -> list[openssh_files.KnownKey]:
        """Return the known keys of some names."""
        texts = [_text(file) for file in self._files]
        return [
            line for text in texts for name in names for line in openssh_files.matching(text, name)
        ]

    def kinds(self) -> set[str]:
        """Return the types of the known keys."""
        return {line.kind for line in self.lines(self._names)}

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        """Accept the key, or raise."""
        del client, hostname
        with _PINNING:
            self._check(key)
        self._accepted()

    def _check(self, key: paramiko.PKey) -> None:
        markers = [
            line.marker
            for line in self.lines(self._names)
            if (line.kind, line.key) == (key.get_name(), key.get_base64())
        ]
        if openssh_files.REVOKED in markers:
            raise self._revoked(key)
        if "" in markers:
            return
        pinned = [line for line in self.lines([self._name]) if not line.marker]
        if pinned:
            raise self._changed(key, pinned)
        if not self._pinned:
            raise self._unknown(key)
        with Path(self._pinned).open("a") as file:
            file.write(f"{self._name} {key.get_name()} {key.get_base64()}\n")

    def _revoked(self, key: paramiko.PKey) -> Unreachable:
        return Unreachable(
            f"The host key of {self._host} is revoked: {key.get_name()} {fingerprint(key)}",
            state="host key",
            means="Your known_hosts marks it as revoked; nothing was sent.",
        )

    def _changed(self, key: paramiko.PKey, pinned: Sequence[openssh_files.KnownKey]) -> Unreachable:
        was = ", ".join(_digest(base64.b64decode(line.key)) for line in pinned)
        return Unreachable(
            f"The host key of {self._host} has changed: now it is {key.get_name()} "
            f"{fingerprint(key)}",
            state="host key",
            means=f"It was {was}. Either the host was reinstalled, "
            "or another machine answers in its place; nothing was sent.",
            remedy="If you know that it was reinstalled: "
            + shlex.join(["ssh-keygen", "-R", self._name, "-f", self._files[0]]),
        )

    def _unknown(self, key: paramiko.PKey) -> Unreachable:
        return Unreachable(
            f"The host key of {self._host} is not known: {key.get_name()} {fingerprint(key)}",
            state="host key",
            means="Somebody else could be answering in its place, so nothing was sent.",
            remedy=f"Compare it with the host's, and accept it: ssh {self._host}\n"
            "Or accept the key of the first answer, for this cluster: --option trust=first-use",
        )


_PINNING = threading.Lock()  # two names may be one host: the second thread finds its key pinned


def _known_hosts_files(connection: fabric.Connection, access: Access, *, target: bool) -> list[str]:
    """Return the known_hosts files: the cluster's own, or else the user's; for jump hosts, both."""
    own = [access.known_hosts] if access.known_hosts else []
    if own and target:
        return own
    settings = connection.ssh_config
    mine = settings.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2")
    all_of_us = settings.get(
        "globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
    )
    files = [*shlex.split(mine), *shlex.split(all_of_us)]
    return own + [str(Path(file).expanduser()) for file in files]


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


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
        own = [f"~/.ssh/{name}" for name in KEY_FILES]
        self._files = [
            Path(file).expanduser()
            for file in ([key] if key else settings.get("identityfile", own))
        ]
        self._only = bool(key) or settings.get("identitiesonly", "no").lower() == "yes"
        self._user = connection.user
        self.locked: list[Path] = []

    def get_sources(self) -> Iterator[AuthSource]:
        """Return the keys one by one; the agent stays connected, as it signs."""
        keys = list(self._on_disk())
        named = {key.asbytes() for key in keys} | {_public(file) for file in self._files}
        with contextlib.closing(paramiko.Agent()) as agent:
            agent_keys = agent.get_keys()
            first = [key for key in agent_keys if key.asbytes() in named]
            rest = [] if self._only else [key for key in agent_keys if key not in first]
            blobs = {key.asbytes() for key in first}
            for key in (*first, *(key for key in keys if key.asbytes() not in blobs), *rest):
                yield InMemoryPrivateKey(self._user, key)

    def _on_disk(self) -> Iterator[paramiko.PKey]:
        for file in self._files:
            try:
                about = file.stat()
                yield _key(str(file), about.st_mtime_ns, about.st_size)
            except TypeError:  # of `cryptography`: the key needs a passphrase
                self.locked.append(file)
            except (OSError, ValueError, paramiko.SSHException):
                continue


@functools.lru_cache(maxsize=16)
def _key(path: str, changed: int, size: int) -> paramiko.PKey:
    """Read a private key, once for all hosts."""
    del changed, size
    return paramiko.PKey.from_path(path)


def _public(file: Path) -> bytes:
    """Return the public half from the file beside a private key, which may need a passphrase."""
    words = _text(f"{file}.pub").split()
    try:
        return base64.b64decode(words[1])
    except (IndexError, ValueError):
        return b""
