"""Foreign programs: they end with their rank, whatever ends it."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cluster.core.errors import ClusterError
from cluster.measure import subprocesses
from cluster.measure.subprocesses import free_port, listens, run_program, run_server
from tests.conftest import processes, until
from tests.snapshots import Snapshot

RANK = """
import sys
from pathlib import Path
from cluster.measure.subprocesses import run_program
run_program(["sleep", sys.argv[1]], stdout=Path("out"), within=60)
"""
HOLDER = """
import sys
from cluster.measure.subprocesses import run_server
server = [sys.executable, "-m", "http.server", "-b", "127.0.0.1", "PORT"]
with run_server(server, "127.0.0.1") as port:
    print(port, flush=True)
    sys.stdin.read()  # until it is killed, or the test is gone
"""


def sh(line: str, out: Path, within: float = 30.0) -> int | None:
    return run_program(["sh", "-c", line], stdout=out, within=within)


def test_what_it_prints_and_how_it_ends(home: Path) -> None:
    out = home / "out"

    assert sh("echo one; echo two", out) == 0
    assert out.read_text() == "one\ntwo\n"
    assert sh("exit 7", out) == 7
    assert out.read_text() == ""
    assert sh("kill -KILL $$", out) == 128 + signal.SIGKILL


def test_its_words_are_its_own(home: Path) -> None:
    out = home / "out"
    words = ["a b", "$HOME", "'", '"', ""]
    assert run_program(["printf", r"[%s]\n", *words], stdout=out, within=30) == 0
    assert out.read_text().splitlines() == [f"[{word}]" for word in words]


def test_what_is_late_is_killed(home: Path) -> None:
    start = time.monotonic()

    assert sh("echo begun; exec sleep 4711.1", home / "out", within=1.0) is None
    assert time.monotonic() - start < 20
    assert (home / "out").read_text() == "begun\n"
    assert processes("4711.1") == []


def test_a_missing_program_is_named_with_the_command_that_installs_it(home: Path) -> None:
    with pytest.raises(ClusterError, match="nosuchprogram") as error:
        run_program(["nosuchprogram"], stdout=home / "out", within=1)

    assert "sudo apt-get install nosuchprogram" in error.value.remedy


def test_it_does_not_take_itself_for_a_rank(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or what stops the ranks would, and an MPI inside of it as well; settings of ours stay."""
    for name in ("PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_MCA_btl"):
        monkeypatch.setenv(name, "1")
    sh("env", home / "out")
    names = {line.partition("=")[0] for line in (home / "out").read_text().splitlines()}

    assert not {"PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"} & names
    assert {"OMPI_MCA_btl", "PATH"} <= names


def test_it_may_use_the_cores_of_whoever_started_the_rank(home: Path) -> None:
    """The rank is bound to one; a program with a thread per stream needs more."""
    all_ = os.sched_getaffinity(os.getppid())
    line = (
        "import os; from pathlib import Path\n"
        "from cluster.measure.subprocesses import run_program\n"
        "os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
        "run_program(['grep', 'Cpus_allowed:', '/proc/self/status'], stdout=Path('out'), within=30)"
    )
    subprocess.run([sys.executable, "-c", line], check=True, cwd=home, timeout=60)
    mask = int((home / "out").read_text().split()[1].replace(",", ""), 16)

    assert {core for core in range(mask.bit_length()) if mask >> core & 1} == all_


def test_a_broken_pipe_ends_it_as_it_would_anywhere(home: Path) -> None:
    """Python ignores SIGPIPE, and children inherit that."""
    sh("grep SigIgn /proc/self/status", home / "out")
    ignored = int((home / "out").read_text().split()[1], 16)

    assert not ignored >> (signal.SIGPIPE - 1) & 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_its_rank(home: Path, number: signal.Signals) -> None:
    seconds = f"4712.{number}"
    rank = subprocess.Popen([sys.executable, "-c", RANK, seconds], cwd=home)
    until(lambda: len(processes(f"sleep\0{seconds}")) == 1, "it runs")
    rank.send_signal(number)
    rank.wait()

    until(lambda: not processes(seconds), "it is gone")


def test_a_server_listens_when_the_block_begins_and_is_gone_after_it(home: Path) -> None:
    argv = [sys.executable, "-m", "http.server", "-b", "127.0.0.1", "PORT"]
    with run_server(argv, "127.0.0.1") as port:
        assert listens(port)
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            pass
    assert not listens(port)


def test_a_server_ends_with_its_rank(home: Path) -> None:
    words = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as rank:
        assert rank.stdout is not None
        port = int(rank.stdout.readline())
        assert listens(port)
        rank.kill()

    until(lambda: not listens(port), "it is gone")


def test_a_server_that_does_not_come_to_listen_is_an_error(snapshot: Snapshot, home: Path) -> None:
    with (
        snapshot.raises(ClusterError),
        run_server(["false", "PORT"], "127.0.0.1"),
    ):
        raise AssertionError("the block was entered")


def test_an_address_of_another_host_is_an_error() -> None:
    """203.0.113.0/24 belongs to nobody (RFC 5737)."""
    with pytest.raises(ClusterError, match=r"203\.0\.113\.1"):
        free_port("203.0.113.1")


def test_a_free_port_is_free() -> None:
    port = free_port("127.0.0.1")

    assert 1024 <= port < 65536
    assert not listens(port)
    with socket.create_server(("127.0.0.1", port)):
        assert listens(port)


def test_a_host_without_ipv6_is_fine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocesses, "TABLES", (home / "none", subprocesses.TABLES[0]))
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert listens(server.getsockname()[1])
