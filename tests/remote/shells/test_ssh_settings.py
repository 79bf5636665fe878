"""The user's own settings of SSH are honoured: names, hosts on the way, keys of an agent."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.core.errors import ShellError, Unreachable
from cluster.remote.shells.ssh import SshShell
from tests.conftest import run, until
from tests.contracts.sshd import Sshd
from tests.remote.shells.conftest import section, settings, shell_to
from tests.snapshots import Snapshot


def test_the_users_own_ssh_config_is_honoured(sshd: Sshd, dot_ssh: Path) -> None:
    """An alias, with its port, user, identity and file of known hosts."""
    settings(dot_ssh, section("friend", sshd, "User root" if os.geteuid() == 0 else ""))
    shell = shell_to("friend", sshd)

    assert shell.run(["echo", "hello"]).stdout == "hello\n"
    shell.close()


def test_a_host_key_alias_is_honoured(sshd: Sshd, dot_ssh: Path) -> None:
    (sshd.folder / "known_hosts").write_text(f"somebody {(sshd.folder / 'host.pub').read_text()}")
    settings(dot_ssh, section("friend", sshd, "HostKeyAlias somebody"))
    shell = shell_to("friend", sshd)

    assert shell.run(["true"]).status == 0
    shell.close()


def test_included_settings_are_honoured(sshd: Sshd, dot_ssh: Path) -> None:
    """What follows them belongs to the section that they were included in."""
    (dot_ssh / "conf.d").mkdir()
    (dot_ssh / "conf.d" / "one").write_text(section("friend", sshd, "Port 1"))
    (dot_ssh / "conf.d" / "two").write_text("Host nobody\n Port 2")
    settings(dot_ssh, "Include conf.d/*", "Host friend", f" Port {sshd.port}")
    (dot_ssh / "conf.d" / "one").write_text(section("friend", sshd).replace("Port", "#Port"))
    shell = shell_to("friend", sshd)

    assert shell.run(["true"]).status == 0
    shell.close()


@pytest.mark.parametrize("line", ["Port here", "Host", "Match exec"])
def test_settings_that_cannot_be_read(sshd: Sshd, dot_ssh: Path, line: str) -> None:
    settings(dot_ssh, "Host friend", line)
    with pytest.raises(Unreachable, match=r"~/\.ssh/config") as unread:
        shell_to("friend", sshd).run(["true"])

    assert "ssh -G friend" in unread.value.remedy
    assert not unread.value.transient


def test_another_host_is_gone_through(servers: Callable[..., Sshd], dot_ssh: Path) -> None:
    """In the order that ssh does it: each lets us through to the next one only."""
    last = servers()
    second = servers(f"PermitOpen 127.0.0.1:{last.port}")
    first = servers(f"PermitOpen 127.0.0.1:{second.port}")
    settings(
        dot_ssh,
        section("last", last, "ProxyJump first,second"),
        section("first", first),
        section("second", second),
    )
    shell = shell_to("last", last)

    assert shell.run(["echo", "hello"]).stdout == "hello\n"
    assert (first.logins(), second.logins(), last.logins()) == (1, 1, 1)
    shell.close()


def test_the_key_of_a_host_on_the_way_is_verified(
    servers: Callable[..., Sshd], dot_ssh: Path
) -> None:
    """Fabric alone would accept any."""
    last, first = servers(), servers()
    settings(dot_ssh, section("last", last, "ProxyJump first"), section("first", first))
    first.know("other")
    with pytest.raises(ShellError, match="first"):
        shell_to("last", last).run(["true"])
    assert (first.logins(), last.logins()) == (0, 0)

    first.know("host")
    last.stop()
    with pytest.raises(Unreachable, match="last") as far:
        shell_to("last", last).run(["true"])
    assert far.value.transient


def test_a_jump_for_every_host_means_not_the_one_in_between(
    servers: Callable[..., Sshd], dot_ssh: Path
) -> None:
    last, first = servers(), servers()
    settings(dot_ssh, section("last", last), section("first", first), "Host *", " ProxyJump first")
    shell = shell_to("last", last)

    assert shell.run(["true"]).status == 0
    assert first.logins() == 1
    shell.close()


def test_a_proxy_command_is_honoured(sshd: Sshd, dot_ssh: Path) -> None:
    """It is given the name that ssh would give it."""
    relay = f"{sys.executable} {dot_ssh / 'relay.py'} %h %p"
    (dot_ssh / "relay.py").write_text(RELAY)
    settings(dot_ssh, section("friend", sshd, f"ProxyCommand {relay}"))
    shell = shell_to("friend", sshd)

    assert shell.run(["echo", "hello"]).stdout == "hello\n"
    shell.close()


RELAY = """
import os, socket, sys, threading
far = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def back():
    while data := far.recv(65536):
        os.write(1, data)
threading.Thread(target=back, daemon=True).start()
while data := os.read(0, 65536):
    far.sendall(data)
"""


@pytest.fixture
def agent(openssh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An ssh-agent that holds nothing yet."""
    del openssh
    path = str(tmp_path / "agent")
    with subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL) as process:
        until(lambda: Path(path).exists(), "the agent listens")
        monkeypatch.setenv("SSH_AUTH_SOCK", path)
        yield
        process.terminate()


@pytest.mark.usefixtures("agent")
def test_keys_of_the_agent_are_shown(snapshot: Snapshot, sshd: Sshd, dot_ssh: Path) -> None:
    """Also that of a locked file; only those that were named, if the user says so."""
    settings(dot_ssh, section("friend", sshd))
    user = sshd.folder / "user"
    run("ssh-keygen", "-q", "-p", "-N", "secret", "-f", str(user))
    with snapshot.raises(ShellError):
        shell_to("friend", sshd).run(["true"])

    run("ssh-keygen", "-q", "-p", "-P", "secret", "-N", "", "-f", str(user))
    run("ssh-add", "-q", str(user))
    user.unlink()
    for line in ("", "IdentitiesOnly yes"):
        settings(dot_ssh, section("friend", sshd, line))
        shell = shell_to("friend", sshd)
        assert shell.run(["true"]).status == 0
        shell.close()

    (sshd.folder / "user.pub").unlink()
    with snapshot.raises(ShellError):
        shell_to("friend", sshd).run(["true"])


def test_a_wrong_key(sshd: Sshd) -> None:
    with pytest.raises(Unreachable) as error:
        SshShell(sshd.machine(key=str(sshd.folder / "other"))).run(["true"])
    assert (error.value.state, error.value.transient) == ("authentication", False)
