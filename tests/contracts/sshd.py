"""A real sshd on loopback, for the tests of everything that goes over SSH."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cluster.core.model.hosts import Access, Machine
from tests.conftest import run, until

SSHD = "/usr/sbin/sshd"


class Sshd:
    """One sshd, with a host key, a user key, and a file of known hosts of its own.

    It listens on an address of the namespace that it runs in (the words `within` get it there).
    """

    def __init__(
        self, folder: Path, *settings: str, address: str = "127.0.0.1", within: tuple[str, ...] = ()
    ) -> None:
        self.folder = folder
        self.address = address
        self.within = within
        self.port = _free_port()
        for name in ("host", "user", "other"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
        shutil.copy(folder / "user.pub", folder / "authorized")
        self.know("host")
        (folder / "config").write_text(
            f"ListenAddress {address}:{self.port}\nHostKey {folder / 'host'}\n"
            f"AuthorizedKeysFile {folder / 'authorized'}\nPidFile none\nStrictModes no\n"
            "UsePAM no\nPasswordAuthentication no\n"
            f"SetEnv TMUX_TMPDIR={os.environ['TMUX_TMPDIR']}\n" + "\n".join(settings) + "\n"
        )
        self.process: subprocess.Popen[bytes] | None = None

    def know(self, key: str) -> None:
        public = (self.folder / f"{key}.pub").read_text()
        (self.folder / "known_hosts").write_text(f"[{self.address}]:{self.port} {public}")

    def start(self) -> None:
        if Path("/run").stat().st_uid == 0 and getpass.getuser() == "root":
            Path("/run/sshd").mkdir(exist_ok=True)  # what sshd wants of root
        with (self.folder / "log").open("ab") as log:
            words = [*self.within, SSHD, "-D", "-e", "-f", str(self.folder / "config")]
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        until(self._answers, "sshd answers")

    def stop(self) -> None:
        """End it; what it forks for a connection has its listening socket, too, for a moment."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=30)
            until(lambda: not self._answers(), "nobody listens")

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((self.address, self.port)) == 0

    def logins(self) -> int:
        return (self.folder / "log").read_text().count("Accepted publickey")

    def cut(self) -> None:
        """Kill what serves the connections, so that they break in the middle.

        For somebody else than root it is two processes, of which the second has the connection.
        """
        assert self.process is not None
        processes = children(self.process.pid)
        grandchildren = [process for child in processes for process in children(child)]
        for process in [*processes, *filter(is_sshd, grandchildren)]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def machine(self, **access: str | int) -> Machine:
        defaults: dict[str, str | int] = {
            "host": self.address,
            "user": getpass.getuser(),
            "port": self.port,
            "key": str(self.folder / "user"),
            "known_hosts": str(self.folder / "known_hosts"),
        }
        return Machine(  # noqa: S604 - "shell" names one of our plug-ins
            name="0.mpi.test",
            id="test",
            address=self.address,
            shell="ssh",
            folder=str(self.folder / "there"),
            bin=str(Path(sys.executable).parent),
            access=Access(**{**defaults, **access}),  # type: ignore[arg-type]
        )


def is_sshd(process: int) -> bool:
    """Tell it from the commands that it runs."""
    try:
        return Path(f"/proc/{process}/comm").read_text().startswith("sshd")
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """List the children of a process."""
    words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(word) for word in words]


def befriend(sshd: Sshd, home: Path) -> str:
    """Let the user's own settings know the key, and give the name to connect to."""
    (home.parent / ".ssh").mkdir(exist_ok=True)
    (home.parent / ".ssh" / "config").write_text(f"IdentityFile {sshd.folder / 'user'}\n")
    return f"{getpass.getuser()}@127.0.0.1:{sshd.port}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _servers(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    if not Path(SSHD).exists():
        pytest.skip("sshd is missing: apt-get install openssh-server")
    daemons: list[Sshd] = []

    def start(*settings: str, **how: Any) -> Sshd:
        folder = tmp_path / f"sshd{len(daemons) or ''}"
        folder.mkdir()
        daemons.append(Sshd(folder, *settings, **how))
        daemons[-1].start()
        return daemons[-1]

    try:
        yield start
    finally:
        for server in daemons:
            server.stop()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    """Starts sshds, and ends them; skips, with the reason, where there is none."""
    with _servers(tmp_path) as start:
        yield start


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A running sshd; skips, with the reason, where there is none."""
    with _servers(tmp_path) as start:
        yield start()


@contextmanager
def listener(says: bytes) -> Iterator[int]:
    """Somebody who accepts, says something, and then nothing; gives the port."""
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as stack:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection = stack.enter_context(server.accept()[0])
                    connection.sendall(says)

        thread = threading.Thread(target=accept)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


class Link:
    """A cable to a namespace, which can be pulled out at its far end."""

    def __init__(self) -> None:
        mark = f"{os.getpid():x}"
        self.name, self.near, self.far = f"ct-{mark}", f"ctn{mark}", f"ctf{mark}"
        base = os.getpid() % 16384 * 4
        subnet = f"198.18.{base >> 8}.{base & 255}"  # a network for measuring: RFC 2544
        gateway, self.address = (f"{subnet.rpartition('.')[0]}.{(base & 255) + n}" for n in (1, 2))
        self.within = ("ip", "netns", "exec", self.name)
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", self.near, "type", "veth", "peer", self.far, "netns", self.name)
        run("ip", "address", "add", f"{gateway}/30", "dev", self.near)
        run("ip", "link", "set", self.near, "up")
        run("ip", "-n", self.name, "address", "add", f"{self.address}/30", "dev", self.far)
        self.set("up")

    def set(self, state: str) -> None:
        run("ip", "-n", self.name, "link", "set", self.far, state)

    def remove(self) -> None:
        run("ip", "link", "delete", self.near, status=None)
        run("ip", "netns", "delete", self.name, status=None)


@pytest.fixture
def link() -> Iterator[Link]:
    """A cable to a namespace of the test's own."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("a network to cut needs root and ip: apt-get install iproute2")
    cable = Link()
    yield cable
    cable.remove()
