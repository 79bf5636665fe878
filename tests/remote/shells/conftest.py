"""Real sshds, and the user's own settings, for the tests of SSH in this folder."""

from pathlib import Path

import pytest

from cluster.remote.shells.ssh import SshShell
from tests.contracts.sshd import Sshd, link, servers, sshd

__all__ = ["link", "servers", "sshd"]


@pytest.fixture
def dot_ssh(home: Path) -> Path:
    folder = home.parent / ".ssh"
    folder.mkdir()
    return folder


def settings(dot_ssh: Path, *sections: str) -> None:
    (dot_ssh / "config").write_text("\n".join(sections) + "\n")


def section(name: str, server: Sshd, *lines: str) -> str:
    """A section of ~/.ssh/config, by which a name means a server."""
    return "\n ".join(
        [
            f"Host {name}",
            f"HostName {server.address}",
            f"Port {server.port}",
            f"IdentityFile {server.folder / 'user'}",
            f"UserKnownHostsFile {server.folder / 'known_hosts'}",
            *lines,
        ]
    )


def shell_to(alias: str, server: Sshd) -> SshShell:
    """A shell to whom the user's own settings mean by a name."""
    return SshShell(server.machine(host=alias, port=0, key="", user="", known_hosts=""))
