"""SSH keys of our own: one to log in with, and one that identifies a new host at first."""

from collections.abc import Iterable
from pathlib import Path

from cluster.core.model.value import Value
from cluster.core.state.files import write_whole

LOGIN, FIRST, KNOWN = "key", "first_host_key", "known_hosts"


class SshKeyPair(Value, frozen=True, kw_only=True):
    """An ed25519 key in OpenSSH's formats."""

    private: str
    public: str


def load_or_create(path: Path) -> SshKeyPair:
    """Read the key in a file, or create it, readable by its owner only."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - slow to import
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PrivateKey,
    )

    if not path.exists():
        new = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
        write_secret(path, new)
    private = path.read_text()
    key = serialization.load_ssh_private_key(private.encode(), password=None)
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return SshKeyPair(private=private, public=public.decode())


def write_secret(path: Path, data: bytes) -> None:
    """Write a secret atomically, readable by its owner only, and wait until it is on disk."""
    write_whole(path, data, 0o600)


def write_known_hosts(path: Path, hosts: Iterable[tuple[str, str]]) -> None:
    """Write pairs of alias and public key as a known_hosts file, atomically, each pair once."""
    lines = dict.fromkeys(f"{alias} {public}\n" for alias, public in hosts)
    write_secret(path, "".join(lines).encode())


def add_known_hosts(path: Path, hosts: Iterable[tuple[str, str]]) -> None:
    """Replace keys, pairs of alias and public key, in a known_hosts file; others stay."""
    new = tuple(hosts)
    aliases = {alias for alias, _ in new}
    write_known_hosts(path, [*(pair for pair in _pairs(path) if pair[0] not in aliases), *new])


def known_aliases(path: Path) -> set[str]:
    """Return the aliases in a known_hosts file, which need not exist."""
    return {alias for alias, _ in _pairs(path)}


def _pairs(path: Path) -> list[tuple[str, str]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [(alias, public) for alias, _, public in (line.partition(" ") for line in lines)]
