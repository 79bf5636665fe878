"""What arrives is whole, or it is not there; and nothing is written where it should not be."""

import gc
import io
import pathlib
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import count, islice
from pathlib import Path

import pytest

from cluster.core.errors import ShellError
from cluster.remote import transfer
from cluster.remote.transfer import ChunkWriter, StreamReader, file_script, folder_script, only_grew
from tests.conftest import run
from tests.snapshots import Snapshot


def reader(data: bytes, at_once: int = 1000) -> StreamReader:
    stream = io.BytesIO(data)
    return StreamReader(lambda: stream.read(at_once))


def pack(*members: tarfile.TarInfo, data: bytes = b"") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for member in members:
            member.size = len(data) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(data) if member.isreg() else None)
    return stream.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize("whole", [True, False])
def test_a_file_that_came_is_renamed_and_half_of_one_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, whole: bool
) -> None:
    """Under its hidden name; of one that came there is nothing to remove."""
    paths: list[str] = []
    unlink = pathlib.Path.unlink

    def note(path: Path) -> None:
        paths.append(path.name)
        unlink(path)

    monkeypatch.setattr(pathlib.Path, "unlink", note)
    monkeypatch.setattr(transfer, "part_name", lambda: ".half")
    (to := tmp_path / "home").mkdir()
    with nullcontext() if whole else pytest.raises(tarfile.TarError):
        transfer.receive(reader(b"data"), to / "it", 0o644, 4 if whole else 5)

    assert [path.name for path in to.iterdir()] == (["it"] if whole else [])
    assert paths == ([] if whole else [".half"])


@pytest.mark.parametrize(
    "sizes", [[], [0], [1, 2], [9], [10], [11], [25, 3, 10], [10, 10], [5, 5, 30]]
)
def test_an_outlet_sends_whole_pieces(sizes: list[int]) -> None:
    """Each but the last; also to somebody who takes less at once."""
    for limit in (10, 3):
        pieces: list[bytes] = []

        def send(piece: bytes, limit: int = limit, pieces: list[bytes] = pieces) -> int:
            pieces.append(piece[:limit])
            return min(limit, len(piece))

        writer = ChunkWriter(send, 10)
        data = [bytes([number]) * size for number, size in enumerate(sizes)]
        for part in data:
            assert writer.write(part) == len(part)
        writer.flush()
        assert b"".join(pieces) == b"".join(data)
        if limit == 10:
            assert all(len(piece) == 10 for piece in pieces[:-1])


def test_an_outlet_that_nobody_reads() -> None:
    with pytest.raises(BrokenPipeError):
        ChunkWriter(lambda _: 0, 10).write(b"x" * 10)


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
        transfer.unpack(reader(pack(bad, data=b"x")), tmp_path / "a" / "home")

    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


def test_a_second_name_of_a_file_is_a_file(tmp_path: Path) -> None:
    link = member("second", tarfile.LNKTYPE, "./first")
    transfer.unpack(reader(pack(member("first"), link, data=b"x")), tmp_path)

    assert (tmp_path / "second").read_text() == "x"
    assert (tmp_path / "second").stat().st_nlink == 1


@pytest.mark.parametrize("length", [513, 700, 1024, 1700])
def test_an_archive_that_is_cut_off(tmp_path: Path, length: int) -> None:
    """The file that was being written does not appear; one of the same name stays as it was."""
    (tmp_path / "file").write_text("old")
    with pytest.raises(tarfile.TarError):
        transfer.unpack(reader(pack(member("file"), data=b"x" * 2000)[:length]), tmp_path)

    assert (tmp_path / "file").read_text() == "old"
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_two_hosts_may_write_into_one_folder_at_once(tmp_path: Path) -> None:
    """As when the files of a job come home: each makes the folders that are not there yet."""
    names = [f"{number}/{number}" for number in range(300)]
    archive = pack(*(member(name, tarfile.DIRTYPE) for name in names), member("file"), data=b"x")
    start = threading.Barrier(8)

    def come(_: int) -> None:
        start.wait()
        transfer.unpack(reader(archive), tmp_path / "home")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(come, range(8)))
    assert [path for path in names if not (tmp_path / "home" / path).is_dir()] == []


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    file, content = tmp_path / "it", "a file"
    file.write_text(content)
    with pytest.raises(FileExistsError):
        transfer.unpack(reader(pack(member("it", tarfile.DIRTYPE))), tmp_path)

    assert file.read_text() == content


def test_a_folder_into_which_nothing_may_be_written(tmp_path: Path) -> None:
    """Its mode comes last."""
    source = tmp_path / "here"
    (source / "sealed").mkdir(parents=True)
    (source / "sealed" / "file").write_text("x")
    (source / "sealed").chmod(0o555)
    stream = io.BytesIO()
    writer = ChunkWriter(stream.write, 100)
    transfer.pack(source, writer)
    writer.flush()
    transfer.unpack(reader(stream.getvalue()), tmp_path / "home")

    sealed = tmp_path / "home" / transfer.INSIDE / "sealed"
    assert (sealed.stat().st_mode & 0o777, (sealed / "file").read_text()) == (0o555, "x")
    assert (tmp_path / "home" / transfer.WHOLE).exists()


def test_a_file_that_became_shorter(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="shorter"):
        transfer.send(io.BytesIO(b"123"), 4, ChunkWriter(len, 100))


@pytest.mark.parametrize("script", [folder_script, lambda to: file_script(to, 9, 0o644)])
def test_a_script_that_gets_less_leaves_nothing(
    tmp_path: Path, script: Callable[[str], str]
) -> None:
    """The stream ends between two members, or in a file: both look like an end."""
    folder = tmp_path / "a folder"
    to = folder / "it's"
    cut = pack(member("it"), data=b"12345")[:1024].decode()
    result = run("sh", "-c", script(str(to)), input=cut, status=1)

    assert "whole" in result.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("to", ["", "/", "..", "a/.."])
def test_a_place_without_a_name(snapshot: Snapshot, to: str) -> None:
    with snapshot.raises(ShellError):
        folder_script(to)


def test_only_files_that_grow_are_fine() -> None:
    grew = "tar: ./log: file changed as we read it"

    assert only_grew(f"{grew}\n{grew}\n")
    assert not only_grew(f"{grew}\ntar: ./x: Cannot open: Permission denied\n")
    assert not only_grew("")


def longnames() -> Iterator[bytes]:
    """Yield headers that say that the next one has a long name, without end."""
    info = member("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    info.size = 100
    while True:
        yield info.tobuf(tarfile.GNU_FORMAT) + b"n" * 99 + bytes(413)


def long_header() -> Iterator[bytes]:
    """Yield one header that describes a file in a gigabyte, and goes on."""
    info = member("PaxHeaders/x", tarfile.XHDTYPE)
    info.size = 1 << 30
    yield info.tobuf(tarfile.USTAR_FORMAT)
    while True:
        yield b"3000 comment=" + b"n" * 2987


def global_headers() -> Iterator[bytes]:
    """Yield what holds for all files that follow, ever more of it, without a file."""
    info = member("pax_global_header", tarfile.XGLTYPE)
    info.size = 30
    header = info.tobuf(tarfile.USTAR_FORMAT)
    for number in count():
        record = f"0030 k{number:010d}={'v' * 12}\n".encode()
        yield header + record.ljust(512, b"\0")


@pytest.mark.parametrize("headers", [longnames, long_header, global_headers])
def test_headers_without_end_are_refused(
    snapshot: Snapshot, tmp_path: Path, headers: Callable[[], Iterator[bytes]]
) -> None:
    """Long before they fill the memory."""
    stream = Counted(headers())
    with snapshot.raises(tarfile.TarError):
        transfer.unpack(StreamReader(stream), tmp_path / "home")

    assert stream.bytes < 3 << 20
    assert not (tmp_path / "home").exists()


class Counted:
    """What a host sends, counted."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.bytes = 0

    def __call__(self) -> bytes:
        piece = next(self._pieces, b"")
        self.bytes += len(piece)
        return piece


FILES = 20_000


def test_memory_is_flat_over_20_000_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with words that are said to hold for all that follow. Nothing is written: that is slow.

    The living objects of this process are counted after 10% and at the end.
    """
    blocks: list[int] = []
    counter = count(1)

    def observe(reader: StreamReader, *_: object) -> None:
        reader.piece(5)
        if next(counter) in (FILES // 10, FILES):
            gc.collect()
            blocks.append(sys.getallocatedblocks())

    def files() -> Iterator[bytes]:
        info = member("a/file")
        info.size = 5
        file = info.tobuf(tarfile.GNU_FORMAT) + b"12345".ljust(512, b"\0")
        for header in islice(global_headers(), FILES):
            yield header + file
        yield bytes(1024)

    monkeypatch.setattr(transfer, "receive", observe)
    transfer.unpack(StreamReader(Counted(files())), tmp_path)

    assert next(counter) == FILES + 1
    assert blocks[1] - blocks[0] < FILES // 10  # less than a byte of each file, as objects go
