"""Who answers is who should, what a failed connection means, and what survives one."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import paramiko
import pytest

from cluster.core.errors import ShellError, Unreachable
from cluster.remote.shells.ssh import SshShell
from cluster.remote.ssh import connection
from tests.conftest import processes, run, until
from tests.contracts.sshd import Link, Sshd, link, listener, servers, sshd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["link", "servers", "sshd"]
GIGABYTE = 1_000_000_000


@pytest.fixture
def dot_ssh(home: Path) -> Path:
    """The user's own settings."""
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


# Host keys


def test_an_unknown_host_key_is_refused_with_its_fingerprint(sshd: Sshd) -> None:
    """Nothing is sent, nothing is accepted, and ssh-keygen would print the same."""
    (sshd.folder / "known_hosts").write_text("")
    with pytest.raises(ShellError) as refused:
        SshShell(sshd.machine()).run(["true"])

    printed = run("ssh-keygen", "-lf", str(sshd.folder / "host.pub")).stdout.split()[1]
    assert printed in refused.value.what
    assert "is not known" in refused.value.what
    assert "--option trust=first-use" in refused.value.remedy
    assert (sshd.folder / "known_hosts").read_text() == ""
    assert sshd.logins() == 0


def test_a_changed_host_key_is_refused(sshd: Sshd) -> None:
    """The command that is named forgets the old key, and does nothing else."""
    sshd.know("other")
    with pytest.raises(ShellError) as refused:
        SshShell(sshd.machine()).run(["true"])

    assert "has changed" in refused.value.what
    command = refused.value.remedy.partition("reinstalled: ")[2]
    run("sh", "-c", command)
    with pytest.raises(ShellError, match="is not known"):
        SshShell(sshd.machine()).run(["true"])


def test_a_revoked_host_key_is_refused(sshd: Sshd) -> None:
    known = sshd.folder / "known_hosts"
    known.write_text(known.read_text() + f"@revoked * {(sshd.folder / 'host.pub').read_text()}")
    with pytest.raises(ShellError, match="is revoked"):
        SshShell(sshd.machine()).run(["true"])


def test_one_of_two_known_keys_is_enough(sshd: Sshd) -> None:
    """As while a host's key is being replaced."""
    both = [(sshd.folder / f"{name}.pub").read_text() for name in ("host", "other")]
    known = "".join(f"[127.0.0.1]:{sshd.port} {key}" for key in both)
    (sshd.folder / "known_hosts").write_text(known)
    shell = SshShell(sshd.machine())

    assert shell.run(["true"]).status == 0
    shell.close()


def test_the_users_own_known_hosts_are_honoured(sshd: Sshd, dot_ssh: Path) -> None:
    """When the provider knows no keys of its own; names may be hashed, as Debian does."""
    machine = sshd.machine(known_hosts="")
    with pytest.raises(ShellError, match="is not known"):
        SshShell(machine).run(["true"])
    known = dot_ssh / "known_hosts"
    known.write_text((sshd.folder / "known_hosts").read_text())
    run("ssh-keygen", "-q", "-H", "-f", str(known))
    assert "127.0.0.1" not in known.read_text()

    shell = SshShell(machine)
    assert shell.run(["true"]).status == 0
    shell.close()


def test_a_host_key_of_another_type_than_we_would_ask_for(servers: Callable[..., Sshd]) -> None:
    """A host has several; the one that is known is asked for."""
    server = servers()
    run("ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", str(server.folder / "rsa"))
    server.stop()
    with (server.folder / "config").open("a") as config:
        config.write(f"HostKey {server.folder / 'rsa'}\n")
    server.start()
    server.know("rsa")
    shell = SshShell(server.machine())

    assert shell.run(["true"]).status == 0
    shell.close()


# The user's own settings


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
    with pytest.raises(Unreachable, match=r"~/\.ssh/config cannot be read") as unread:
        shell_to("friend", sshd).run(["true"])

    assert "ssh -G friend" in unread.value.remedy
    assert not unread.value.passing


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
    with pytest.raises(ShellError, match="The host key of first has changed"):
        shell_to("last", last).run(["true"])
    assert (first.logins(), last.logins()) == (0, 0)

    first.know("host")
    last.stop()
    with pytest.raises(Unreachable, match="last cannot be reached from the host before it") as far:
        shell_to("last", last).run(["true"])
    assert far.value.passing


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
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An ssh-agent that holds nothing yet."""
    where = str(tmp_path / "agent")
    with subprocess.Popen(["ssh-agent", "-D", "-a", where], stdout=subprocess.DEVNULL) as process:
        until(lambda: Path(where).exists(), "the agent listens")
        monkeypatch.setenv("SSH_AUTH_SOCK", where)
        yield
        process.terminate()


@pytest.mark.usefixtures("agent")
def test_keys_of_the_agent_are_shown(sshd: Sshd, dot_ssh: Path) -> None:
    """Also that of a locked file; only those that were named, if the user says so."""
    settings(dot_ssh, section("friend", sshd))
    user = sshd.folder / "user"
    run("ssh-keygen", "-q", "-p", "-N", "secret", "-f", str(user))
    with pytest.raises(ShellError, match="there is no key to show") as refused:
        shell_to("friend", sshd).run(["true"])
    assert f"{user} is locked by a passphrase: ssh-add {user}" in refused.value.remedy

    run("ssh-keygen", "-q", "-p", "-P", "secret", "-N", "", "-f", str(user))
    run("ssh-add", "-q", str(user))
    user.unlink()
    for line in ("", "IdentitiesOnly yes"):
        settings(dot_ssh, section("friend", sshd, line))
        shell = shell_to("friend", sshd)
        assert shell.run(["true"]).status == 0
        shell.close()

    (sshd.folder / "user.pub").unlink()
    with pytest.raises(ShellError, match="there is no key to show"):
        shell_to("friend", sshd).run(["true"])


def test_a_wrong_key(sshd: Sshd) -> None:
    with pytest.raises(ShellError, match="does not accept the login"):
        SshShell(sshd.machine(key=str(sshd.folder / "other"))).run(["true"])


# Nobody there


def test_nobody_listens(sshd: Sshd) -> None:
    sshd.stop()
    with pytest.raises(ShellError, match="refuses the connection") as refused:
        SshShell(sshd.machine()).run(["true"])
    assert "booting" in refused.value.means


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n" * 200])
def test_somebody_listens_who_speaks_no_ssh(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch, says: bytes
) -> None:
    """A host that accepts, and says nothing or something else, is given up in time."""
    monkeypatch.setattr("cluster.remote.ssh.connection.CONNECT_TIMEOUT", 1.0)
    with listener(says) as port, pytest.raises(Unreachable, match="could not be conn") as refused:
        SshShell(sshd.machine(port=port)).run(["true"])

    assert (refused.value.state, refused.value.passing) == ("banner", True)


def test_an_sshd_that_does_not_decide(
    servers: Callable[..., Sshd], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a directory service, say."""
    monkeypatch.setattr("cluster.remote.ssh.connection.CONNECT_TIMEOUT", 1.0)
    if os.geteuid() != 0:
        pytest.skip("only an sshd of root's asks a command who may come in")
    server = servers("AuthorizedKeysCommand /bin/sleep 30", "AuthorizedKeysCommandUser root")
    (server.folder / "authorized").unlink()
    with pytest.raises(Unreachable, match=r"does not accept the login: .*timeout") as late:
        SshShell(server.machine()).run(["true"])

    assert (late.value.state, late.value.passing) == ("authentication", True)


def test_an_unknown_name(sshd: Sshd) -> None:
    with pytest.raises(ShellError, match=r"The name no\.such\.host\.invalid is not known"):
        SshShell(sshd.machine(host="no.such.host.invalid")).run(["true"])


def test_no_way_there(link: Link, servers: Callable[..., Sshd]) -> None:
    """Nobody has this address in the network that is behind the link."""
    server = servers(address=link.address, within=link.within)
    nobody = f"{link.address.rpartition('.')[0]}.{int(link.address.rpartition('.')[2]) + 1}"
    run("ip", "route", "add", "unreachable", f"{nobody}/32")
    try:
        with pytest.raises(Unreachable, match="cannot be reached") as lost:
            SshShell(server.machine(host=nobody)).run(["true"])
    finally:
        run("ip", "route", "delete", "unreachable", f"{nobody}/32")
    assert (lost.value.state, lost.value.passing) == ("no route", True)


# Connections that break


def test_one_connection_is_used_again_and_made_again(sshd: Sshd) -> None:
    """One for many commands; a new one after the old one broke."""
    shell = SshShell(sshd.machine())
    for _ in range(5):
        shell.run(["true"])
    assert sshd.logins() == 1
    sshd.stop()
    shell.close()
    with pytest.raises(ShellError, match="refuses the connection"):
        shell.run(["true"])
    sshd.start()

    assert shell.run(["echo", "again"]).stdout == "again\n"
    assert sshd.logins() == 2
    shell.close()


# Finds the sshd that serves us, `$server`, and its child that we run under, `$top`: a login shell
# may have become our command, or be above it.
FIND = """
server=$$
until case $(cat /proc/$server/comm) in sshd*) ;; *) false ;; esac; do
  top=$server
  server=$(cut -d ' ' -f 4 /proc/$server/stat)
done
"""


def test_a_connection_that_breaks_is_no_exit_status(sshd: Sshd) -> None:
    """The command kills the process that serves its own connection."""
    shell = SshShell(sshd.machine())
    with pytest.raises(ShellError, match=r"The connection to 127\.0\.0\.1 broke during sh"):
        shell.run(["sh", "-c", f"{FIND} kill -9 $server; sleep 5"], timeout=30)

    assert shell.run(["echo", "again"]).stdout == "again\n"
    shell.close()


def test_a_connection_that_broke_while_idle_is_made_again(sshd: Sshd) -> None:
    shell = SshShell(sshd.machine())
    shell.connect()
    sshd.cut()
    until(lambda: not shell._chain[-1].is_connected, "it is noticed")

    assert shell.run(["echo", "again"]).stdout == "again\n"
    shell.close()


def test_an_exit_status_of_255_is_one(sshd: Sshd) -> None:
    """OpenSSH's client cannot tell it from a connection that broke; we can."""
    shell = SshShell(sshd.machine())

    assert shell.run(["sh", "-c", "exit 255"]).status == 255
    shell.close()


def test_a_signal_to_the_shell_around_a_command_is_no_exit_status(sshd: Sshd) -> None:
    """The connection has nothing to do with it, and is kept."""
    shell = SshShell(sshd.machine())
    with pytest.raises(ShellError, match="ended without an exit status"):
        shell.run(["sh", "-c", f"{FIND} kill -9 $top $$"])

    assert shell.run(["echo", "again"]).stdout == "again\n"
    assert sshd.logins() == 1
    shell.close()


def test_a_command_may_be_silent_for_long(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its host is asked for signs of life meanwhile."""
    monkeypatch.setattr(connection, "KEEPALIVE", 1)
    monkeypatch.setattr(connection, "SILENCE", 4)
    shell = SshShell(sshd.machine())

    assert shell.run(["sleep", "7"]).status == 0
    assert sshd.logins() == 1
    shell.close()


def test_a_dead_network_is_noticed_within_15_seconds(
    link: Link, servers: Callable[..., Sshd]
) -> None:
    """A cable is pulled while a command runs: no end of a connection is ever heard."""
    server = servers(address=link.address, within=link.within)
    _is_noticed(SshShell(server.machine()), link, server.address)


def test_a_dead_network_behind_another_host_is_noticed_as_well(
    link: Link, servers: Callable[..., Sshd], dot_ssh: Path
) -> None:
    """The kernel knows only the connection to the first one, which lives."""
    far, first = servers(address=link.address, within=link.within), servers()
    settings(dot_ssh, section("far", far, "ProxyJump first"), section("first", first))
    _is_noticed(shell_to("far", far), link, "far")


def _is_noticed(shell: SshShell, link: Link, name: str) -> None:
    cut = threading.Event()
    ended = threading.Event()

    def hear(_: str) -> None:
        link.set("down")
        cut.set()

    def command() -> None:
        with pytest.raises(
            Unreachable, match=f"connection to {name} broke during sh: no answer for"
        ):
            shell.run(["sh", "-c", "echo go; sleep 100"], on_line=hear)
        ended.set()

    threading.Thread(target=command, daemon=True).start()
    assert cut.wait(30)
    assert ended.wait(15)
    shell.close()


def test_a_short_cut_is_survived(link: Link, servers: Callable[..., Sshd]) -> None:
    server = servers(address=link.address, within=link.within)
    shell = SshShell(server.machine())
    lines: list[str] = []

    def hear(line: str) -> None:
        lines.append(line)
        if line == "go":
            link.set("down")
            threading.Timer(4.0, link.set, ["up"]).start()

    assert shell.run(["sh", "-c", "echo go; sleep 6; echo done"], on_line=hear).status == 0
    assert lines == ["go", "done"]
    assert server.logins() == 1
    shell.close()


def test_a_late_command_is_ended_on_the_host(sshd: Sshd) -> None:
    """Its children, too."""
    shell = SshShell(sshd.machine())
    mark = f"61{sshd.port}.5"
    with pytest.raises(ShellError, match=r"sh did not end within 0\.3 s"):
        shell.run(["sh", "-c", f"sleep {mark} & sleep {mark}"], timeout=0.3)

    until(lambda: not processes(mark), "it ends")
    shell.close()


@pytest.mark.parametrize("error", [paramiko.SSHException("no"), AttributeError("no")])
def test_an_attempt_that_fails_early_leaves_no_socket(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Before paramiko's thread has begun, which would close it; also by a mistake of ours."""
    made: list[socket.socket] = []
    dial = socket.create_connection

    def create_connection(*args: Any, **how: Any) -> socket.socket:
        made.append(dial(*args, **how))
        return made[-1]

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(socket, "create_connection", create_connection)
    monkeypatch.setattr(connection.Transport, "prefer", fail)
    with pytest.raises((Unreachable, AttributeError), match="no"):
        SshShell(sshd.machine()).connect()

    [left] = made
    assert left.fileno() == -1


def test_more_commands_than_its_sshd_permits(servers: Callable[..., Sshd], tmp_path: Path) -> None:
    """Those that run are not hurt."""
    heard = tmp_path / "heard"
    server = servers("MaxSessions 1")
    shell = SshShell(server.machine())
    refused: list[ShellError] = []

    def hear(_: str) -> None:
        with pytest.raises(ShellError, match="true could not be started") as failed:
            shell.run(["true"])
        refused.append(failed.value)
        heard.touch()

    first = f"echo go; until [ -e {heard} ]; do sleep 0.02; done"
    assert shell.run(["sh", "-c", first], on_line=hear, timeout=60).status == 0
    assert "MaxSessions" in refused[0].remedy
    shell.close()


# Files


def test_200_megabytes_by_line_need_little_memory(sshd: Sshd) -> None:
    """Measured in a process of its own: the most that it ever had."""
    script = f"""
import msgspec, resource, sys
from cluster.core.model.hosts import Machine
from cluster.remote.shells.ssh import SshShell
most = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
shell = SshShell(msgspec.json.decode({msgspec_text(sshd)!r}, type=Machine))
shell.run(["true"])
before, count = most(), 0
def hear(line):
    global count
    count += len(line) + 1
done = shell.run(["sh", "-c", "yes {"x" * 99} | head -c 200000000; echo err >&2"], on_line=hear)
assert (done.status, done.stdout, done.stderr, count) == (0, "", "err\\n", 200_000_000), count
print(most() - before)
shell.close()
"""
    grown = int(run(sys.executable, "-c", script).stdout)

    assert grown < 60_000  # KiB


def msgspec_text(sshd: Sshd) -> str:
    import msgspec  # noqa: PLC0415 - needed here only

    return msgspec.json.encode(sshd.machine()).decode()


def test_files_survive_a_change_of_keys(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ends agree on new ones every so often, in the middle of a file."""
    monkeypatch.setattr(paramiko.packet.Packetizer, "REKEY_BYTES", 3_000_000)
    data = os.urandom(20_000_000)
    (tmp_path / "file").write_bytes(data)
    shell = SshShell(sshd.machine())
    shell.put(tmp_path / "file", str(tmp_path / "far" / "file"))
    shell.fetch(str(tmp_path / "far"), tmp_path / "home")

    assert hashlib.sha256((tmp_path / "home" / "file").read_bytes()).digest() == (
        hashlib.sha256(data).digest()
    )
    shell.close()


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_put_that_breaks_leaves_nothing(sshd: Sshd, tmp_path: Path, what: str) -> None:
    """Not under its name, and not beside it; it can be repeated."""
    here = _large(tmp_path, what)
    far = tmp_path / "far"
    shell = SshShell(sshd.machine())
    with ThreadPoolExecutor() as pool:
        putting = pool.submit(shell.put, here, str(far / "it"))
        until(lambda: _bytes_below(far) > 1_000_000, "a part of it is there")
        sshd.cut()
        with pytest.raises(ShellError, match=r"The connection to 127\.0\.0\.1 broke during put"):
            putting.result()
    until(lambda: list(far.iterdir()) == [], "the host tidies up")

    _shrink(here)
    shell.put(here, str(far / "it"))
    assert [path.name for path in far.iterdir()] == ["it"]
    shell.close()


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_fetch_that_breaks_leaves_nothing_half(sshd: Sshd, tmp_path: Path, what: str) -> None:
    there = _large(tmp_path, what)
    home = tmp_path / "home"
    shell = SshShell(sshd.machine())
    with ThreadPoolExecutor() as pool:
        fetching = pool.submit(shell.fetch, str(there), home)
        until(lambda: _bytes_below(home) > 1_000_000, "a part of it is here")
        sshd.cut()
        with pytest.raises(ShellError, match=r"The connection to 127\.0\.0\.1 broke during fetch"):
            fetching.result()
    assert {path.name for path in home.rglob("*")} <= {"a small one"}

    _shrink(there)
    shell.fetch(str(there), home)
    assert "large" in [path.name for path in home.rglob("*")]
    shell.close()


def _large(tmp_path: Path, what: str) -> Path:
    """Make a file with a hole, so large that it takes a while; alone or after a small one."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "a small one").write_text("small")
    with (folder / "large").open("wb") as file:
        file.truncate(20 * GIGABYTE)
    return folder if what == "folder" else folder / "large"


def _shrink(path: Path) -> None:
    os.truncate(path / "large" if path.is_dir() else path, 1000)


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def test_a_stream_that_ends_early_is_not_taken_for_a_whole_one(sshd: Sshd, tmp_path: Path) -> None:
    """A file here cannot be read, after others were sent."""
    here = tmp_path / "here"
    here.mkdir()
    (here / "a").write_text("x")
    (here / "b").mkdir()
    (here / "b" / "c").symlink_to("/proc/1/mem")
    os.mkfifo(here / "d")
    shell = SshShell(sshd.machine())
    with pytest.raises(ShellError, match="neither a file nor a folder"):
        shell.put(here / "d", str(tmp_path / "far" / "d"))
    shell.put(here, str(tmp_path / "far" / "it"))

    assert sorted(path.name for path in (tmp_path / "far").iterdir()) == ["it"]
    shell.close()


def test_the_other_end_says_why_a_put_fails(sshd: Sshd, tmp_path: Path) -> None:
    """While much is still to be sent."""
    here = _large(tmp_path, "file")
    (tmp_path / "full").symlink_to("/dev/full")
    shell = SshShell(sshd.machine())
    with pytest.raises(ShellError, match="could not be written: mkdir: cannot create directory"):
        shell.put(here, str(tmp_path / "full" / "it"))

    shell.close()


def test_the_fast_ciphers_are_used(sshd: Sshd) -> None:
    shell = SshShell(sshd.machine())
    shell.connect()

    transport = shell._chain[-1].transport
    assert transport.local_cipher == transport.remote_cipher == connection.CIPHERS[0]
    shell.close()
