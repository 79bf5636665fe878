"""Files over SSH: large ones, copies that break, and what the other end says."""

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import paramiko
import pytest

from cluster.core.errors import ShellError
from cluster.remote.shells.ssh import SshShell
from cluster.remote.ssh import connection
from tests.conftest import run, until
from tests.contracts.sshd import Sshd
from tests.snapshots import Snapshot

GIGABYTE = 1_000_000_000


@pytest.fixture
def shell(sshd: Sshd) -> Iterator[SshShell]:
    with closing(SshShell(sshd.machine())) as ssh:
        yield ssh


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
    shell: SshShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ends agree on new ones every so often, in the middle of a file."""
    monkeypatch.setattr(paramiko.packet.Packetizer, "REKEY_BYTES", 3_000_000)
    data = os.urandom(20_000_000)
    (tmp_path / "file").write_bytes(data)
    shell.put(tmp_path / "file", str(tmp_path / "far" / "file"))
    shell.fetch(str(tmp_path / "far"), tmp_path / "home")

    assert hashlib.sha256((tmp_path / "home" / "file").read_bytes()).digest() == (
        hashlib.sha256(data).digest()
    )


@pytest.fixture(params=["file", "folder"])
def source(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return _large(tmp_path, request.param)


def test_a_put_that_breaks_leaves_nothing(
    sshd: Sshd, shell: SshShell, tmp_path: Path, source: Path
) -> None:
    """Not under its name, and not beside it; it can be repeated."""
    far = tmp_path / "far"
    _break("put", sshd, far, lambda: shell.put(source, str(far / "it")))
    until(lambda: list(far.iterdir()) == [], "the host tidies up")

    _shrink(source)
    shell.put(source, str(far / "it"))
    assert [path.name for path in far.iterdir()] == ["it"]


def test_a_fetch_that_breaks_leaves_nothing_half(
    sshd: Sshd, shell: SshShell, tmp_path: Path, source: Path
) -> None:
    home = tmp_path / "home"
    _break("fetch", sshd, home, lambda: shell.fetch(str(source), home))
    assert {path.name for path in home.rglob("*")} <= {"a small one"}

    _shrink(source)
    shell.fetch(str(source), home)
    assert "large" in [path.name for path in home.rglob("*")]


def _break(verb: str, sshd: Sshd, arriving: Path, transfer: Callable[[], None]) -> None:
    """Cut the connection once a part of what is transferred has arrived."""
    with ThreadPoolExecutor() as pool:
        transferring = pool.submit(transfer)
        until(
            lambda: transferring.done() or _bytes_below(arriving) > 1_000_000,
            "a part of it is there",
        )
        sshd.cut()
        with pytest.raises(ShellError, match=rf"127\.0\.0\.1 .* {verb}"):
            transferring.result()


def _large(tmp_path: Path, kind: str) -> Path:
    """Make a file with a hole, so large that it takes a while; alone or after a small one."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "a small one").write_text("small")
    with (folder / "large").open("wb") as file:
        file.truncate(20 * GIGABYTE)
    return folder if kind == "folder" else folder / "large"


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


def test_a_stream_that_ends_early_is_not_taken_for_a_whole_one(
    snapshot: Snapshot, shell: SshShell, tmp_path: Path
) -> None:
    """A file here cannot be read, after others were sent."""
    source = tmp_path / "here"
    source.mkdir()
    (source / "a").write_text("x")
    (source / "b").mkdir()
    (source / "b" / "c").symlink_to("/proc/1/mem")
    os.mkfifo(source / "d")
    with snapshot.raises(ShellError):
        shell.put(source / "d", str(tmp_path / "far" / "d"))
    shell.put(source, str(tmp_path / "far" / "it"))

    assert sorted(path.name for path in (tmp_path / "far").iterdir()) == ["it"]


def test_the_other_end_says_why_a_put_fails(shell: SshShell, tmp_path: Path) -> None:
    """While much is still to be sent."""
    source = _large(tmp_path, "file")
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(ShellError, match="mkdir: cannot create directory"):
        shell.put(source, str(tmp_path / "full" / "it"))


def test_the_fast_ciphers_are_used(shell: SshShell) -> None:
    shell.connect()

    transport = shell._chain[-1].transport
    assert transport.local_cipher == transport.remote_cipher == connection.CIPHERS[0]
