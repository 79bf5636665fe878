"""What arrives is whole, or it is not there; and nothing is written where it should not be."""

from __future__ import annotations

import io
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from cluster.core.errors import ShellError
from cluster.remote import transfer
from tests.conftest import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def reader(data: bytes, at_once: int = 1000) -> transfer.StreamReader:
    stream = io.BytesIO(data)
    return transfer.StreamReader(lambda: stream.read(at_once))


def packed(*members: tarfile.TarInfo, data: bytes = b"") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for member in members:
            member.size = len(data) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(data) if member.isreg() else None)
    return stream.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


@pytest.mark.parametrize(
    "sizes", [[], [0], [1, 2], [9], [10], [11], [25, 3, 10], [10, 10], [5, 5, 30]]
)
def test_an_outlet_sends_whole_pieces(sizes: list[int]) -> None:
    """Each but the last; also to somebody who takes less at once."""
    for taken in (10, 3):
        sent: list[bytes] = []

        def send(piece: bytes, taken: int = taken, sent: list[bytes] = sent) -> int:
            sent.append(piece[:taken])
            return min(taken, len(piece))

        writer = transfer.ChunkWriter(send, 10)
        data = [bytes([number]) * size for number, size in enumerate(sizes)]
        for part in data:
            assert writer.write(part) == len(part)
        writer.flush()
        assert b"".join(sent) == b"".join(data)
        if taken == 10:
            assert all(len(piece) == 10 for piece in sent[:-1])


def test_an_outlet_that_nobody_reads() -> None:
    with pytest.raises(BrokenPipeError):
        transfer.ChunkWriter(lambda _: 0, 10).write(b"x" * 10)


def test_an_inlet_is_read_forwards() -> None:
    stream = reader(b"line\n" + bytes(range(100)), at_once=7)

    assert stream.line() == b"line"
    assert stream.read(10) == bytes(range(10))
    stream.seek(50)
    assert (stream.tell(), stream.read(1000)) == (50, bytes(range(45, 100)))
    assert stream.read(1) == stream.line() == b""


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (member("../outside"), "outside"),
        (member("/tmp/outside"), "outside"),  # noqa: S108 - it must not be written
        (member("link", tarfile.SYMTYPE, "/etc"), "neither"),
        (member("link", tarfile.LNKTYPE, "../../outside"), "outside"),
        (member("pipe", tarfile.FIFOTYPE), "neither"),
    ],
)
def test_what_a_host_must_not_make_us_write(tmp_path: Path, bad: tarfile.TarInfo, why: str) -> None:
    with pytest.raises(tarfile.TarError, match=why):
        transfer.unpack(reader(packed(bad, data=b"x")), tmp_path / "a" / "home")

    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


def test_a_second_name_of_a_file_is_a_file(tmp_path: Path) -> None:
    link = member("second", tarfile.LNKTYPE, "./first")
    transfer.unpack(reader(packed(member("first"), link, data=b"x")), tmp_path)

    assert (tmp_path / "second").read_text() == "x"
    assert (tmp_path / "second").stat().st_nlink == 1


@pytest.mark.parametrize("left", [513, 700, 1024, 1700])
def test_an_archive_that_is_cut_off(tmp_path: Path, left: int) -> None:
    """The file that was being written does not appear; one of the same name stays as it was."""
    (tmp_path / "file").write_text("old")
    with pytest.raises(tarfile.TarError):
        transfer.unpack(reader(packed(member("file"), data=b"x" * 2000)[:left]), tmp_path)

    assert (tmp_path / "file").read_text() == "old"
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_two_hosts_may_write_into_one_folder_at_once(tmp_path: Path) -> None:
    """As when the files of a job come home: each makes the folders that are not there yet."""
    names = [f"{number}/{number}" for number in range(300)]
    sent = packed(*(member(name, tarfile.DIRTYPE) for name in names), member("file"), data=b"x")
    start = threading.Barrier(8)

    def come(_: int) -> None:
        start.wait()
        transfer.unpack(reader(sent), tmp_path / "home")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(come, range(8)))
    assert [path for path in names if not (tmp_path / "home" / path).is_dir()] == []


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "it").write_text("a file")
    with pytest.raises(FileExistsError):
        transfer.unpack(reader(packed(member("it", tarfile.DIRTYPE))), tmp_path)

    assert (tmp_path / "it").read_text() == "a file"


def test_a_folder_into_which_nothing_may_be_written(tmp_path: Path) -> None:
    """Its mode comes last."""
    here = tmp_path / "here"
    (here / "sealed").mkdir(parents=True)
    (here / "sealed" / "file").write_text("x")
    (here / "sealed").chmod(0o555)
    sent = io.BytesIO()
    writer = transfer.ChunkWriter(sent.write, 100)
    transfer.pack(here, writer)
    writer.flush()
    transfer.unpack(reader(sent.getvalue()), tmp_path / "home")

    sealed = tmp_path / "home" / transfer.INSIDE / "sealed"
    assert (sealed.stat().st_mode & 0o777, (sealed / "file").read_text()) == (0o555, "x")
    assert (tmp_path / "home" / transfer.WHOLE).exists()


def test_a_file_that_became_shorter(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="shorter"):
        transfer.send(io.BytesIO(b"123"), 4, transfer.ChunkWriter(len, 100))


@pytest.mark.parametrize(
    "script", [transfer.folder_script, lambda to: transfer.file_script(to, 9, 0o644)]
)
def test_a_script_that_gets_less_leaves_nothing(
    tmp_path: Path, script: Callable[[str], str]
) -> None:
    """The stream ends between two members, or in a file: both look like an end."""
    to = tmp_path / "a folder" / "it's"
    cut = packed(member("it"), data=b"12345")[:1024].decode()
    done = run("sh", "-c", script(str(to)), input=cut, status=1)

    assert "whole" in done.stderr
    assert list((tmp_path / "a folder").iterdir()) == []


@pytest.mark.parametrize("to", ["", "/", "..", "a/.."])
def test_a_place_without_a_name(to: str) -> None:
    with pytest.raises(ShellError, match="names no file or folder"):
        transfer.folder_script(to)


def test_only_files_that_grow_are_fine() -> None:
    grew = "tar: ./log: file changed as we read it"

    assert transfer.only_grew(f"{grew}\n{grew}\n")
    assert not transfer.only_grew(f"{grew}\ntar: ./x: Cannot open: Permission denied\n")
    assert not transfer.only_grew("")
