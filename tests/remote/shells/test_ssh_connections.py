"""What a failed connection means, and which connections survive what breaks them."""

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paramiko
import pytest

from cluster.core.errors import ShellError, Unreachable
from cluster.remote.shells.ssh import SshCommand, SshShell
from cluster.remote.ssh import connection
from tests.conftest import processes, run, until
from tests.contracts.sshd import Link, Sshd, listener
from tests.remote.shells.conftest import section, settings, shell_to
from tests.snapshots import Snapshot


def test_nobody_listens(sshd: Sshd) -> None:
    sshd.stop()
    with pytest.raises(Unreachable) as error:
        SshShell(sshd.machine()).run(["true"])
    assert (error.value.state, error.value.transient) == ("refused", True)


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n" * 200])
def test_somebody_listens_who_speaks_no_ssh(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch, says: bytes
) -> None:
    """A host that accepts, and says nothing or something else, is given up in time."""
    monkeypatch.setattr("cluster.remote.ssh.connection.CONNECT_TIMEOUT", 1.0)
    with listener(says) as port, pytest.raises(Unreachable) as error:
        SshShell(sshd.machine(port=port)).run(["true"])

    assert (error.value.state, error.value.transient) == ("banner", True)


def test_an_sshd_that_does_not_decide(
    servers: Callable[..., Sshd], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a directory service, say."""
    monkeypatch.setattr("cluster.remote.ssh.connection.CONNECT_TIMEOUT", 1.0)
    if os.geteuid() != 0:
        pytest.skip("only an sshd of root's asks a command who may come in")
    server = servers("AuthorizedKeysCommand /bin/sleep 30", "AuthorizedKeysCommandUser root")
    (server.folder / "authorized").unlink()
    with pytest.raises(Unreachable) as error:
        SshShell(server.machine()).run(["true"])

    assert (error.value.state, error.value.transient) == ("authentication", True)


def test_an_unknown_name(sshd: Sshd) -> None:
    with pytest.raises(ShellError, match=r"no\.such\.host\.invalid"):
        SshShell(sshd.machine(host="no.such.host.invalid")).run(["true"])


def test_no_way_there(link: Link, servers: Callable[..., Sshd]) -> None:
    """Nobody has this address in the network that is behind the link."""
    server = servers(address=link.address, within=link.within)
    nobody = f"{link.address.rpartition('.')[0]}.{int(link.address.rpartition('.')[2]) + 1}"
    run("ip", "route", "add", "unreachable", f"{nobody}/32")
    try:
        with pytest.raises(Unreachable) as error:
            SshShell(server.machine(host=nobody)).run(["true"])
    finally:
        run("ip", "route", "delete", "unreachable", f"{nobody}/32")
    assert (error.value.state, error.value.transient) == ("no route", True)


# Connections that break


def test_one_connection_is_used_again_and_made_again(sshd: Sshd) -> None:
    """One for many commands; a new one after the old one broke."""
    shell = SshShell(sshd.machine())
    for _ in range(5):
        shell.run(["true"])
    assert sshd.logins() == 1
    sshd.stop()
    shell.close()
    with pytest.raises(Unreachable):
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
    with pytest.raises(ShellError, match=r"127\.0\.0\.1 .* sh"):
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


def test_a_signal_to_the_shell_around_a_command_is_no_exit_status(
    snapshot: Snapshot, sshd: Sshd
) -> None:
    """The connection has nothing to do with it, and is kept."""
    shell = SshShell(sshd.machine())
    with snapshot.raises(ShellError):
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


@pytest.mark.timed
def test_a_dead_network_is_noticed_within_15_seconds(
    link: Link, servers: Callable[..., Sshd]
) -> None:
    """A cable is pulled while a command runs: no end of a connection is ever heard."""
    server = servers(address=link.address, within=link.within)
    _is_noticed(SshShell(server.machine()), link, server.address)


@pytest.mark.timed
def test_a_dead_network_behind_another_host_is_noticed_as_well(
    link: Link, servers: Callable[..., Sshd], dot_ssh: Path
) -> None:
    """The kernel knows only the connection to the first one, which lives."""
    far, first = servers(address=link.address, within=link.within), servers()
    settings(dot_ssh, section("far", far, "ProxyJump first"), section("first", first))
    _is_noticed(shell_to("far", far), link, "far")


def _is_noticed(shell: SshShell, link: Link, name: str) -> None:
    cut = threading.Event()
    end = threading.Event()

    def hear(_: str) -> None:
        link.set("down")
        cut.set()

    def command() -> None:
        with pytest.raises(Unreachable, match=f"{name} .* sh: "):
            shell.run(["sh", "-c", "echo go; sleep 100"], on_line=hear)
        end.set()

    threading.Thread(target=command, daemon=True).start()
    assert cut.wait(30)
    assert end.wait(15)
    shell.close()


def test_what_broke_a_connection_is_known_after_another_command_has_closed_it(sshd: Sshd) -> None:
    """Its transport was silent; the shell has forgotten it by then."""
    shell = SshShell(sshd.machine())

    def fall_silent(_: str) -> None:
        shell._chain[-1].transport.silent = True
        shell.close()

    with pytest.raises(Unreachable, match=" sh: "):
        shell.run(["sh", "-c", "echo go; sleep 100"], on_line=fall_silent)


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
    with pytest.raises(ShellError, match=r"0\.3 s"):
        shell.run(["sh", "-c", f"sleep {mark} & sleep {mark}"], timeout=0.3)

    until(lambda: not processes(mark), "it ends")
    shell.close()


@pytest.mark.parametrize("error", [paramiko.SSHException("no"), AttributeError("no")])
def test_an_attempt_that_fails_early_leaves_no_socket(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Before paramiko's thread has begun, which would close it; also by a mistake of ours."""
    sockets: list[socket.socket] = []
    dial = socket.create_connection

    def create_connection(*args: Any, **how: Any) -> socket.socket:
        sockets.append(dial(*args, **how))
        return sockets[-1]

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(socket, "create_connection", create_connection)
    monkeypatch.setattr(connection.Transport, "prefer", fail)
    with pytest.raises((Unreachable, AttributeError), match="no"):
        SshShell(sshd.machine()).connect()

    [leak] = sockets
    assert leak.fileno() == -1


def test_more_commands_than_its_sshd_permits(servers: Callable[..., Sshd], tmp_path: Path) -> None:
    """Those that run are not hurt."""
    log = tmp_path / "heard"
    server = servers("MaxSessions 1")
    shell = SshShell(server.machine())
    errors: list[ShellError] = []

    def hear(_: str) -> None:
        with pytest.raises(ShellError, match="true") as failure:
            shell.run(["true"])
        errors.append(failure.value)
        log.touch()

    first = f"echo go; until [ -e {log} ]; do sleep 0.02; done"
    assert shell.run(["sh", "-c", first], on_line=hear, timeout=60).status == 0
    assert "MaxSessions" in errors[0].remedy
    shell.close()


class LateChannel:
    """Of an sshd that sends the exit status, and the rest of an error 1.5 s later."""

    def __init__(self) -> None:
        self.status_event = threading.Event()
        self.status_event.set()
        self.timeout = 0.0
        self.pieces = [b"mount:", b" no such type", b""]
        self.ended = threading.Event()

    def settimeout(self, seconds: float) -> None:
        self.timeout = seconds

    def recv(self, _most: int) -> bytes:
        if not self.ended.wait(self.timeout):
            raise TimeoutError
        return b""

    def recv_stderr(self, _most: int) -> bytes:
        if len(self.pieces) == 2:
            time.sleep(1.5)
        piece = self.pieces.pop(0)
        if not piece:
            self.ended.set()
        return piece

    def recv_exit_status(self) -> int:
        return 32


def test_an_error_that_a_busy_host_sends_after_the_exit_status_is_whole() -> None:
    channel: Any = LateChannel()
    command = SshCommand(channel, lambda: ShellError("broken"))

    assert command.receive_running(1) == b""
    assert command.end() == (32, "mount: no such type")
