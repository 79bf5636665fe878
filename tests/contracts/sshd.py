"""A real sshd on loopback, for the tests of everything that goes over SSH."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster.model import Access, Machine
from tests.conftest import run, until

if TYPE_CHECKING:
    from collections.abc import Iterator

SSHD = "/usr/sbin/sshd"


class Sshd:
    """One sshd, with a host key, a user key, and a file of known hosts of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        for name in ("host", "user", "other"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
        shutil.copy(folder / "user.pub", folder / "authorized")
        self.know("host")
        (folder / "config").write_text(
            f"ListenAddress 127.0.0.1:{self.port}\nHostKey {folder / 'host'}\n"
            f"AuthorizedKeysFile {folder / 'authorized'}\nPidFile none\nStrictModes no\n"
            "UsePAM no\nPasswordAuthentication no\n"
            f"SetEnv TMUX_TMPDIR={os.environ['TMUX_TMPDIR']}\n"
        )
        self.process: subprocess.Popen[bytes] | None = None

    def know(self, key: str) -> None:
        public = (self.folder / f"{key}.pub").read_text()
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {public}")

    def start(self) -> None:
        if Path("/run").stat().st_uid == 0 and getpass.getuser() == "root":
            Path("/run/sshd").mkdir(exist_ok=True)  # what sshd wants of root
        with (self.folder / "log").open("ab") as log:
            words = [SSHD, "-D", "-e", "-f", str(self.folder / "config")]
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        until(self._answers, "sshd answers")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=30)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def machine(self, **access: str | int) -> Machine:
        known: dict[str, str | int] = {
            "host": "127.0.0.1",
            "user": getpass.getuser(),
            "port": self.port,
            "key": str(self.folder / "user"),
            "known_hosts": str(self.folder / "known_hosts"),
        }
        return Machine(  # noqa: S604 - "shell" names one of our plug-ins
            name="0.mpi.test",
            id="test",
            address="127.0.0.1",
            shell="ssh",
            folder=str(self.folder / "there"),
            bin=str(Path(sys.executable).parent),
            access=Access(**{**known, **access}),  # type: ignore[arg-type]
        )


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


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A running sshd; skips, with the reason, where there is none."""
    if not Path(SSHD).exists():
        pytest.skip("sshd is missing: apt-get install openssh-server")
    folder = tmp_path / "sshd"
    folder.mkdir()
    server = Sshd(folder)
    server.start()
    yield server
    server.stop()
