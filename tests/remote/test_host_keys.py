"""New host keys: which sshd is told to read them."""

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest

from cluster.remote.network.host_keys import LISTENS, rotate
from cluster.remote.shells.ssh import SshShell
from tests.contracts.sshd import SSHD, Sshd, sshd

__all__ = ["sshd"]

KEY = "ssh_host_ed25519_key"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups", True),
        ("sshd: /usr/sbin/sshd -D -f /home/a@b/config [listener] 1 of 10-100 startups", True),
        ("/usr/sbin/sshd -D", True),
        ("/usr/sbin/sshd -D -f /etc/ssh/other", True),
        ("sshd: ubuntu [priv]", False),  # of a connection, by ssh.socket of Debian 12
        ("sshd: root@notty", False),
        ("/usr/sbin/sshd -i", False),
        ("sshd-session: debian [priv]", False),  # OpenSSH 9.8
    ],
)
def test_only_an_sshd_that_listens_is_signalled(words: str, expected: bool) -> None:  # noqa: FBT001
    """One for a single connection would end it; the next one reads the new key anyway."""
    script = f'{LISTENS}\nlistens "$1"'
    result = subprocess.run(["sh", "-euc", script, "sh", words], check=False)

    assert (result.returncode == 0) == expected


IN_PLACE = 'mount --bind "$0" /etc/ssh && exec "$1" -i -E "$2"'


@pytest.fixture
def socket_activated(sshd: Sshd) -> Iterator[Sshd]:
    """An sshd for each connection, as `ssh.socket` of Debian 12 starts it: `sshd -i`.

    It has the settings of the system's place for them, in a mount namespace of its own.
    """
    if os.geteuid() != 0:
        pytest.skip("an /etc/ssh of its own needs root")
    sshd.stop()
    place = sshd.folder / "etc"
    place.mkdir()
    (sshd.folder / "host").rename(place / KEY)
    lines = (sshd.folder / "config").read_text().splitlines()
    rest = [line for line in lines if not line.startswith(("ListenAddress", "HostKey"))]
    (place / "sshd_config").write_text("\n".join([f"HostKey /etc/ssh/{KEY}", *rest, ""]))
    log = sshd.folder / "log"
    words = ["unshare", "--mount", "sh", "-c", IN_PLACE, str(place), SSHD, str(log)]
    with socket.create_server((sshd.address, 0)) as server:
        sshd.port = server.getsockname()[1]
        processes: list[subprocess.Popen[bytes]] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = server.accept()
                    with peer:
                        processes.append(
                            subprocess.Popen(words, stdin=peer.fileno(), stdout=peer.fileno())
                        )

        thread = threading.Thread(target=accept)
        thread.start()
        yield sshd
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for process in processes:
            process.terminate()
            process.wait(timeout=30)


def test_the_key_of_an_sshd_that_is_started_for_each_connection_is_changed(
    socket_activated: Sshd,
) -> None:
    """The connection that changes it lives on, the next one meets the new key, and no other."""
    machine = socket_activated.machine(alias="i-1")
    known_hosts = socket_activated.folder / "known_hosts"
    first = (socket_activated.folder / "host.pub").read_text().split()[:2]
    known_hosts.write_text(f"i-1 {' '.join(first)}\n")
    shells = {machine.name: SshShell(machine)}
    rotate(shells, {machine.name: machine}, known_hosts)
    [(alias, *now)] = [line.split() for line in known_hosts.read_text().splitlines()]

    assert (alias, now[0]) == ("i-1", "ssh-ed25519")
    assert now != first
    assert (socket_activated.folder / "etc" / f"{KEY}.ours").exists()
    assert shells[machine.name].run(["echo", "there"]).stdout == "there\n"
    shells[machine.name].close()
