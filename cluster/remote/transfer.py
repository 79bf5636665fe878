"""File transfer to and from a host: the scripts that run there, and the streams in between.

Names in scripts are always quoted. A file appears under its name only once it is complete.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import shutil
import tarfile
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from cluster.core.errors import ShellError

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 1 << 18  # bytes that are read from a file at a time
WHOLE = "whole"  # the last member of an archive: with it, the archive is complete
FOLDER = "folder"  # what comes is a packed folder
RESERVE = 1 << 30  # bytes that stay free here, however much a host sends
MOST_FILES = 200_000  # of one folder: a run has a dozen per rank
MOST_HEADER = 1 << 20  # bytes that describe one file: its name, and who it belongs to
MOST_LINE = 256  # bytes of the line before a file's content
INSIDE = "it"  # the member that holds what was packed, whatever its name


class ChunkWriter:
    """A writer that cuts a stream into pieces of the size that a connection takes at once.

    Args:
        send: sends the beginning of a piece, and tells how much of it; 0 if nobody reads any more.
        most: bytes in a piece.

    """

    def __init__(self, send: Callable[[bytes], int], most: int) -> None:
        """Hold nothing back yet."""
        self._send = send
        self._most = most
        self._held = b""

    def write(self, data: bytes) -> int:
        """Send what makes whole pieces, and hold the rest.

        Args:
            data: the next bytes.

        Returns:
            How many they are.

        Raises:
            BrokenPipeError: nobody reads any more.

        """
        view = memoryview(self._held + data if self._held else data)
        end = len(view) - len(view) % self._most
        for start in range(0, end, self._most):
            self._all_of(bytes(view[start : start + self._most]))
        self._held = bytes(view[end:])
        return len(data)

    def flush(self) -> None:
        """Send what is held.

        Raises:
            BrokenPipeError: nobody reads any more.

        """
        held, self._held = self._held, b""
        self._all_of(held)

    def tell(self) -> int:
        """Say that this is the beginning, which is all that `tarfile` asks."""
        return 0

    def _all_of(self, piece: bytes) -> None:
        while piece:
            sent = self._send(piece)
            if sent == 0:
                raise BrokenPipeError
            piece = piece[sent:]


class StreamReader:
    """A reader of a stream that comes out of a connection, forwards only.

    Args:
        receive: waits for more bytes and gives them; none at the end.

    """

    def __init__(self, receive: Callable[[], bytes]) -> None:
        """Begin at the beginning."""
        self._receive = receive
        self.header_left = MOST_HEADER
        self._held = memoryview(b"")
        self._at = 0

    def piece(self, most: int) -> memoryview:
        """Give the next bytes, at least one.

        Args:
            most: how many at most.

        Returns:
            Them; none at the end, or if none were asked for.

        """
        if not self._held:
            self._held = memoryview(self._receive())
        given, self._held = self._held[:most], self._held[most:]
        self._at += len(given)
        return given

    def read(self, size: int) -> bytes:
        """Give the next bytes of a header, as many as were asked for if there are so many.

        Args:
            size: how many.

        Returns:
            Them.

        Raises:
            tarfile.TarError: the header of this file is too long: it is held in memory.

        """
        self.header_left -= size
        if self.header_left < 0:
            raise tarfile.TarError(f"what describes a file is longer than {MOST_HEADER} bytes")
        parts = []
        while size > 0 and (part := self.piece(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def line(self) -> bytes:
        """Give the next line, without its newline, or the beginning of a long one."""
        return b"".join(islice(iter(lambda: self.read(1).strip(b"\n"), b""), MOST_LINE))

    def tell(self) -> int:
        """Give how many bytes were read."""
        return self._at

    def seek(self, position: int) -> None:
        """Go on to a position that is not yet read."""
        while self._at < position and self.piece(position - self._at):
            pass


def send(file: IO[bytes], size: int, writer: ChunkWriter) -> None:
    """Send a file as long as it was; what is written to it meanwhile is left out.

    Args:
        file: open, at its beginning.
        size: in bytes.
        writer: where it goes.

    Raises:
        OSError: it could not be read, or nobody reads what is sent.

    """
    left = size
    while left > 0:
        piece = file.read(min(CHUNK, left))
        if not piece:
            raise OSError("it became shorter meanwhile")
        writer.write(piece)
        left -= len(piece)


def pack(path: Path, writer: ChunkWriter) -> None:
    """Send a folder; links in it stay links.

    Args:
        path: of the folder.
        writer: where it goes.

    Raises:
        OSError: something could not be read, or nobody reads what is sent.

    """
    file = cast("IO[bytes]", writer)
    # Not PAX, which not every tar reads.
    archive = tarfile.TarFile(fileobj=file, mode="w", format=tarfile.GNU_FORMAT, copybufsize=CHUNK)
    archive.add(path, arcname=INSIDE)
    archive.addfile(tarfile.TarInfo(WHOLE))  # a stream that was cut off may look like a whole one
    archive.close()


def unpack(reader: StreamReader, to: Path) -> None:
    """Write what comes below a folder: files and folders only, each file whole or not at all.

    Args:
        reader: where it comes from.
        to: the folder; it is made, and files of the same name are replaced.

    Raises:
        OSError: something could not be written.
        tarfile.TarError: what comes is no archive, or would be written outside of the folder.

    """
    modes: list[tuple[Path, int]] = []
    count, left = 0, room(to)
    try:
        archive = tarfile.TarFile(fileobj=cast("IO[bytes]", reader), mode="r")
        while (member := archive.next()) is not None:
            count, left = count + 1, left - member.size
            if count > MOST_FILES:
                raise tarfile.TarError(f"it has more than {MOST_FILES:,} files")
            if left < 0:
                raise _no_room(to)
            modes += _extract(reader, member, to)
            archive.members.clear()  # type: ignore[attr-defined] # it would remember them all
            reader.header_left = MOST_HEADER
    except RecursionError as error:  # headers of headers
        raise tarfile.TarError("its headers have no end") from error
    for folder, mode in reversed(modes):  # last, because one may not let us write into it
        folder.chmod(mode)


def _extract(reader: StreamReader, member: tarfile.TarInfo, to: Path) -> list[tuple[Path, int]]:
    """Write one member; gives the mode that a new folder has to get in the end."""
    target = _inside(member.name, to)
    if member.issparse():
        raise tarfile.TarError(f"{member.name} has holes, and may be of any size")
    if member.isdir():
        return [(target, member.mode & 0o777)] if _made(target) else []
    target.parent.mkdir(parents=True, exist_ok=True)
    if member.islnk():  # another name of a file that came before
        with _inside(member.linkname, to).open("rb") as file:
            receive(StreamReader(lambda: file.read(CHUNK)), target, member.mode & 0o777)
    elif member.isfile():
        receive(reader, target, member.mode & 0o777, member.size)
    else:
        raise tarfile.TarError(f"{member.name} is neither a file nor a folder")
    return []


def _made(folder: Path) -> bool:
    """Make a folder; tell whether it is new: another host's files may come here meanwhile."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return False
    return True


def room(to: Path) -> int:
    """Give how many bytes a host may send.

    Args:
        to: where they go; it need not be there.

    Returns:
        What is free there, but for a reserve.

    """
    there = next(path for path in (to, *to.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free - RESERVE


def _no_room(to: Path) -> tarfile.TarError:
    return tarfile.TarError(f"less than {RESERVE >> 30} GiB would stay free in {to}")


def _inside(name: str, to: Path) -> Path:
    if ".." in Path(name).parts or name.startswith("/"):
        raise tarfile.TarError(f"{name} would be written outside")
    return to / name


def receive(
    reader: StreamReader,
    target: Path,
    mode: int,
    size: int | None = None,
    good: Callable[[], None] = lambda: None,
) -> None:
    """Write a file beside its place, then rename it.

    Args:
        reader: where it comes from.
        target: its path.
        mode: its mode.
        size: in bytes; all that comes if not known.
        good: called before it is renamed; raises if what came is not good.

    Raises:
        OSError: it could not be written.
        tarfile.TarError: less came than was announced.

    """
    part = target.with_name(part_name())
    try:
        with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            _fill(file, reader, size, target.parent)
        good()
        part.chmod(mode)
        part.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _fill(file: IO[bytes], reader: StreamReader, size: int | None, folder: Path) -> None:
    left = size
    free = room(folder) if size is None else size
    while left != 0 and (piece := reader.piece(left or CHUNK)):
        free -= len(piece)
        if free < 0:
            raise _no_room(folder)
        file.write(piece)
        left = None if left is None else left - len(piece)
    if left:
        raise tarfile.TarError("it did not arrive whole")


def part_name() -> str:
    """Give the name of a file that is not complete yet: hidden, random and short."""
    return f".{secrets.token_hex(6)}.part"


class Quoted(NamedTuple):
    """A path on a host, quoted.

    Args:
        to: it.
        part: a new name beside it, for what is not whole yet.
        folder: that both are in.

    """

    to: str
    part: str
    folder: str


def _quoted(path: str) -> Quoted:
    target = PurePosixPath(path)
    if target.name in ("", ".."):
        raise ShellError(f"{path!r} could not be written: it names no file or folder.")
    part = target.with_name(part_name())
    return Quoted(*(shlex.quote(str(word)) for word in (target, part, target.parent)))


def file_script(path: str, size: int, mode: int) -> str:
    """Give the script that reads a file from its standard input and puts it in its place.

    Args:
        path: of the file.
        size: in bytes: a connection that broke looks like the end of a file.
        mode: of the file.

    Returns:
        The script.

    Raises:
        ShellError: the path names no file.

    """
    there = _quoted(path)
    return (
        f"{_begin(there)}(umask 077 && cat > {there.part}) || exit; "
        f"[ $(wc -c < {there.part}) -eq {size} ] || {_NOT_WHOLE}; "
        f"chmod -- {mode:o} {there.part} && mv -fT -- {there.part} {there.to}"
    )


def folder_script(path: str) -> str:
    """Give the script that reads a packed folder from its standard input.

    Args:
        path: of the folder; one that is there already gets the files.

    Returns:
        The script.

    Raises:
        ShellError: the path names no folder.

    """
    there = _quoted(path)
    inner, whole = f"{there.part}/{INSIDE}", f"{there.part}/{WHOLE}"
    return (
        f"{_MERGE}{_begin(there)}mkdir -m 700 -- {there.part} || exit; "
        f"tar -C {there.part} -xpof - || exit; [ -e {whole} ] || {_NOT_WHOLE}; "
        # Two names may be one host: then the folder may have come there meanwhile.
        f"[ -d {there.to} ] || mv -fT -- {inner} {there.to} || [ -d {there.to} ] || exit; "
        f"[ ! -d {inner} ] || merge {inner} {there.to}"
    )


def _begin(there: Quoted) -> str:
    """Make the folder, and remove the partial file however the script ends."""
    clean = shlex.quote(f"rm -rf -- {there.part}")
    return f"mkdir -p -- {there.folder} || exit; trap {clean} EXIT; {_EXIT_ON_SIGNALS}; "


_EXIT_ON_SIGNALS = "trap 'exit 1' HUP INT PIPE TERM"  # a shell killed by a signal runs no EXIT trap
_NOT_WHOLE = "{ echo 'it did not arrive whole' >&2; exit 1; }"
# Each file by a rename: readers see the old or the new one, and a running program keeps its own.
_MERGE = """merge() {
  for e in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    if [ ! -e "$e" ] && [ ! -L "$e" ]; then continue; fi
    if [ ! -L "$e" ] && [ -d "$e" ] && [ -d "$2/${e##*/}" ]; then (merge "$e" "$2/${e##*/}")
    else mv -fT -- "$e" "$2/${e##*/}"; fi || return
  done
}
"""


def fetch_script(path: str) -> str:
    """Give the script that prints `folder` and a packed folder, or a file's mode and content.

    Args:
        path: of the file or folder.

    Returns:
        The script.

    """
    there = shlex.quote(path)
    return (
        f"export LC_ALL=C; "
        f"if [ -d {there} ]; then echo {FOLDER} && exec tar -C {there} -chf - .; fi; "
        f"if [ -e {there} ] && [ ! -f {there} ]; then"
        " echo 'it is neither a file nor a folder' >&2; exit 1; fi; "
        f"stat -L -c %a -- {there} && exec cat -- {there}"
    )


def only_grew(said: str) -> bool:
    """Tell whether tar complains only that somebody wrote meanwhile, as a running job does.

    Args:
        said: its standard error.

    Returns:
        Whether what it sent is good.

    """
    lines = said.splitlines()
    return bool(lines) and all(line.endswith("file changed as we read it") for line in lines)
