"""A host that falls silent while a step of srun runs on it; its kernel is asked, and not srun."""

import socket
import threading
import time
from pathlib import Path

import pytest

from cluster.agent import peers
from cluster.core.errors import Unreachable
from cluster.core.model.hosts import Machine
from cluster.remote.shells.srun import KernelWatch, SrunShell
from tests.conftest import processes, until, write_program

# Stands for a network that drops what is sent: no test can take a host's power without a lab
# (tests/lab/test_slurm.py does). It refuses other words than those of the script.
TIMEOUT = """\
#!/bin/sh
[ "$2 $3 $5 $6" = "bash -c 127.0.0.1 {port}" ] || exit 64
echo "$1" >> {folder}/asked
[ ! -e {folder}/unreachable ] || exit 1
[ ! -e {folder}/dead ] || {{ sleep "$1"; exit 124; }}
exec /usr/bin/timeout "$@"
"""
STEP = """\
#!/bin/sh
touch {folder}/running
exec sleep 600
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs, where a file `dead` takes this machine's answers away."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]  # closed, as port 9 is, and only of this test
    monkeypatch.setattr(peers, "PORT", port)
    for name, text in (("timeout", TIMEOUT), ("srun", STEP)):
        write_program(tmp_path / name, text.format(folder=tmp_path, port=port))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name in ("BETWEEN", "ANSWERS_WITHIN", "SILENT"):
        monkeypatch.setattr(peers, name, 1.0)
    return tmp_path


def machine(address: str = "127.0.0.1", node: str = "node7") -> Machine:
    return Machine(  # noqa: S604 - "shell" names a plug-in
        name="0.mpi.x", id=node, address=address, shell="srun", folder="", bin="", job="1"
    )


def nobody_asks() -> bool:
    """Tell whether no script asks."""
    return not processes(f"\0{peers.PORT}\0001\0001\0001")


def questions(folder: Path) -> int:
    path = folder / "asked"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_long_step_on_a_node_that_falls_silent_ends_and_says_so(folder: Path) -> None:
    """3 s: questions are at least 1 s apart, and the node may be silent for 1 s."""
    shell = SrunShell(machine())

    def die() -> None:
        until(lambda: (folder / "running").exists() and questions(folder), "the step runs, watched")
        (folder / "dead").touch()

    threading.Thread(target=die).start()
    message = r"127\.0\.0\.1 has not answered for 1 s"
    with pytest.raises(Unreachable, match=message) as error, shell.watch():
        shell.run(["sleep", "600"])
    assert error.value.transient


def test_a_host_that_answers_is_asked_until_the_block_ends(folder: Path) -> None:
    loss = threading.Event()
    with KernelWatch(machine(), loss.set) as watch:
        until(lambda: questions(folder) > 1, "it is asked again")
        assert not nobody_asks()
    assert (watch.why, loss.is_set()) == ("", False)
    until(nobody_asks, "nobody asks any more")


@pytest.mark.parametrize("address", ["127.0.0.1", "no-such-name.invalid"])
def test_a_host_that_never_answered_is_not_watched(folder: Path, address: str) -> None:
    """A firewall may drop the question, or only Slurm may know the name."""
    (folder / "dead").touch()
    start = time.monotonic()
    with KernelWatch(machine(address), lambda: None) as watch:
        until(lambda: address != "127.0.0.1" or questions(folder), "it asks")
        until(nobody_asks, "nobody asks any more")
    assert watch.why == ""
    assert time.monotonic() - start < 30
    assert questions(folder) == (address == "127.0.0.1")


def test_a_host_that_cannot_be_reached_is_lost_after_the_same_silence(folder: Path) -> None:
    """2 s: a question between two, and 1 s of them. None is without a limit, which 0 would be."""
    loss = threading.Event()
    with KernelWatch(machine(), loss.set):
        until(lambda: questions(folder), "it is asked")
        (folder / "unreachable").touch()
        assert loss.wait(30)
    assert set((folder / "asked").read_text().split()) == {"1"}


def test_the_machine_that_asks_is_not_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside an allocation the first node may be this one, and ranks are timed on it."""
    monkeypatch.setattr("platform.node", lambda: "node7.example.org")
    with KernelWatch(machine(), lambda: None):
        assert nobody_asks()
    assert not questions(folder)
