"""Keys that are ours alone: one to log in with, and one that a new host is known by at first."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cluster.core.model.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LOGIN, FIRST, KNOWN = "key", "first_host_key", "known_hosts"


class SshKeyPair(Value, frozen=True, kw_only=True):
    """An ed25519 key in OpenSSH's formats.

    Args:
        private: the text of its file.
        public: its type and itself, in one line.

    """

    private: str
    public: str


def load_or_create(path: Path) -> SshKeyPair:
    """Give the key of a file; a new one is created readable by its owner only.

    Args:
        path: of the private half; the public one is beside it.

    Returns:
        The key.

    """
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - slow to import

    if not path.exists():
        write_secret(path, _made())
    private = path.read_text()
    key = serialization.load_ssh_private_key(private.encode(), password=None)
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return SshKeyPair(private=private, public=public.decode())


def _made() -> bytes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - slow to import
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PrivateKey,
    )

    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )


def write_secret(path: Path, data: bytes) -> None:
    """Write a secret: it is never there half, never readable for others, and on disk after.

    Args:
        path: of the file.
        data: of it.

    """
    part = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def write_known_hosts(path: Path, hosts: Iterable[tuple[str, str]]) -> None:
    """Write which key each host has, in one step.

    Args:
        path: of the known_hosts file.
        hosts: each with the alias it is known by, and a public key; an alias may come again.

    """
    write_secret(path, "".join(f"{alias} {public}\n" for alias, public in hosts).encode())
