"""Who answers is who should; and what a failed connection means."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from cluster.errors import ShellError
from cluster.shells.ssh import Ssh
from tests.conftest import run
from tests.contracts.sshd import Sshd, sshd

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["sshd"]


def test_an_unknown_host_key_is_refused_with_its_fingerprint(sshd: Sshd) -> None:
    """Nothing is sent, nothing is accepted, and ssh-keygen would print the same."""
    (sshd.folder / "known_hosts").write_text("")
    with pytest.raises(ShellError) as refused:
        Ssh(sshd.machine()).run(["true"])

    printed = run("ssh-keygen", "-lf", str(sshd.folder / "host.pub")).stdout.split()[1]
    assert printed in refused.value.what
    assert "is not known" in refused.value.what
    assert (sshd.folder / "known_hosts").read_text() == ""


def test_a_changed_host_key_is_refused(sshd: Sshd) -> None:
    sshd.know("other")
    with pytest.raises(ShellError) as refused:
        Ssh(sshd.machine()).run(["true"])

    assert "has changed" in refused.value.what
    assert "ssh-keygen -R" in refused.value.remedy


def test_the_users_own_known_hosts_are_honoured(sshd: Sshd, home: Path) -> None:
    """When the provider knows no keys of its own."""
    machine = sshd.machine(known_hosts="")
    with pytest.raises(ShellError, match="is not known"):
        Ssh(machine).run(["true"])
    (home.parent / ".ssh").mkdir()
    (home.parent / ".ssh" / "known_hosts").write_text((sshd.folder / "known_hosts").read_text())

    shell = Ssh(machine)
    assert shell.run(["true"]).status == 0
    shell.close()


def test_the_users_own_ssh_config_is_honoured(sshd: Sshd, home: Path) -> None:
    """An alias, with its port, user and identity."""
    (home.parent / ".ssh").mkdir()
    (home.parent / ".ssh" / "config").write_text(
        f"Host friend\n HostName 127.0.0.1\n Port {sshd.port}\n"
        f" IdentityFile {sshd.folder / 'user'}\n"
    )
    shell = Ssh(sshd.machine(host="friend", port=0, key="", user=""))

    assert shell.run(["echo", "hello"]).stdout == "hello\n"
    shell.close()


def test_a_wrong_key(sshd: Sshd) -> None:
    with pytest.raises(ShellError, match="does not let us in"):
        Ssh(sshd.machine(key=str(sshd.folder / "other"))).run(["true"])


def test_nobody_listens(sshd: Sshd) -> None:
    sshd.stop()
    with pytest.raises(ShellError, match="refuses the connection") as refused:
        Ssh(sshd.machine()).run(["true"])
    assert "booting" in refused.value.means


def test_somebody_listens_who_speaks_no_ssh(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that accepts and says nothing is given up in time."""
    monkeypatch.setattr("cluster.connecting.CONNECT_TIMEOUT", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port: int = mute.getsockname()[1]
        with pytest.raises(ShellError, match="could not be connected"):
            Ssh(sshd.machine(port=port)).run(["true"])


def test_an_unknown_name(sshd: Sshd) -> None:
    with pytest.raises(ShellError, match=r"The name no\.such\.host\.invalid is not known"):
        Ssh(sshd.machine(host="no.such.host.invalid")).run(["true"])


def test_one_connection_is_used_again_and_made_again(sshd: Sshd) -> None:
    """One for many commands; a new one after the old one broke."""
    shell = Ssh(sshd.machine())
    for _ in range(5):
        shell.run(["true"])
    assert _logins(sshd) == 1
    sshd.stop()
    shell.close()
    with pytest.raises(ShellError, match="refuses the connection"):
        shell.run(["true"])
    sshd.start()

    assert shell.run(["echo", "again"]).stdout == "again\n"
    assert _logins(sshd) == 2
    shell.close()


def test_a_connection_that_breaks_is_no_exit_status(sshd: Sshd) -> None:
    """The command kills the process that serves its own connection."""
    shell = Ssh(sshd.machine())
    with pytest.raises(ShellError, match=r"The connection to 127\.0\.0\.1 broke during sh"):
        shell.run(
            ["sh", "-c", "read -r _ _ _ parent _ < /proc/$PPID/stat; kill -9 $parent; sleep 5"],
            timeout=30,
        )

    assert shell.run(["echo", "again"]).stdout == "again\n"
    shell.close()


def _logins(sshd: Sshd) -> int:
    return (sshd.folder / "log").read_text().count("Accepted publickey")
