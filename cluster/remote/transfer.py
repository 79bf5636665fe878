"""Transfer of files to and from a host, as streams; a host cannot write outside of the folder.

A file appears under its name only once it is complete. Paths in scripts are always quoted.
"""

import contextlib
import os
import secrets
import shlex
import shutil
import tarfile
import time
from collections.abc import Callable, Sequence
from itertools import islice, takewhile
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple, cast

from cluster.core.errors import ShellError, on_failure

CHUNK = 1 << 18  # bytes that are read from a file at a time
MOST_HEADER = 1 << 20  # bytes of the headers of one file, such as its name and owner
MOST_LINE = 256  # bytes of the first line, before a file's content


class ChunkWriter:
    """Cuts a stream into pieces of at most `most` bytes; `send` returns how many were sent."""

    def __init__(self, send: Callable[[bytes], int], most: int) -> None:
        self._send = send
        self._most = most
        self._pending = b""

    def write(self, data: bytes) -> int:
        """Send all whole pieces, and buffer the rest (BrokenPipeError: the host reads no more)."""
        view = memoryview(self._pending + data if self._pending else data)
        end = len(view) - len(view) % self._most
        for start in range(0, end, self._most):
            self._all_of(bytes(view[start : start + self._most]))
        self._pending = bytes(view[end:])
        return len(data)

    def flush(self) -> None:
        """Send the rest in the buffer (BrokenPipeError: the host reads no more)."""
        pending, self._pending = self._pending, b""
        self._all_of(pending)

    def tell(self) -> int:
        """Return 0: `tarfile` asks only before it writes."""
        return 0

    def _all_of(self, piece: bytes) -> None:
        while piece:
            count = self._send(piece)
            if count == 0:
                raise BrokenPipeError
            piece = piece[count:]


class StreamReader:
    """Reads a stream from a connection, whose `receive` waits for bytes, none at its end."""

    def __init__(self, receive: Callable[[], bytes]) -> None:
        self._receive = receive
        self.header_left = MOST_HEADER
        self._pending = memoryview(b"")
        self._offset = 0

    def piece(self, most: int) -> memoryview:
        """Read the next bytes, from 1 to `most`; none at the end, or if `most` is 0."""
        if not self._pending:
            self._pending = memoryview(self._receive())
        piece, self._pending = self._pending[:most], self._pending[most:]
        self._offset += len(piece)
        return piece

    def read(self, size: int) -> bytes:
        """Read the next bytes of a header, fewer at the end (tarfile.TarError: it is too long)."""
        self.header_left -= size
        if self.header_left < 0:
            raise tarfile.TarError(f"what describes a file is longer than {MOST_HEADER} bytes")
        parts = []
        while size > 0 and (part := self.piece(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def line(self) -> bytes:
        """Read the next line, without its newline, or the beginning of a long one."""
        return b"".join(islice(iter(lambda: self.read(1).strip(b"\n"), b""), MOST_LINE))

    def tell(self) -> int:
        return self._offset

    def seek(self, position: int) -> None:
        while self._offset < position and self.piece(position - self._offset):
            pass


WHOLE = "whole"  # the last member of an archive, which marks it as complete
FOLDER = "folder"  # first line of a stream that is a packed folder
RESERVE = 1 << 30  # bytes that stay free here, however much all hosts send together
MOST_FILES = 200_000  # and folders, also those that only a name implies: a run has a dozen per rank
INSIDE = "it"  # the member that is the packed folder, whatever its name


def send(file: IO[bytes], size: int, writer: ChunkWriter) -> None:
    """Send a file up to its size at the beginning, even if it grows meanwhile (OSError)."""
    remaining = size
    while remaining > 0:
        piece = file.read(min(CHUNK, remaining))
        if not piece:
            raise OSError("it became shorter meanwhile")
        writer.write(piece)
        remaining -= len(piece)


def pack(path: Path, writer: ChunkWriter, only: Sequence[str] | None = None) -> None:
    """Send a folder, or the paths of `only`, each folder before its content; links stay links.

    OSError: it could not be read, or the host reads no more. ShellError: one of `only` may not be.
    """
    file = cast("IO[bytes]", writer)
    # Not PAX: some versions of tar cannot read it.
    archive = tarfile.TarFile(fileobj=file, mode="w", format=tarfile.GNU_FORMAT, copybufsize=CHUNK)
    archive.add(path, arcname=INSIDE, recursive=only is None)
    for name in only or ():
        _add(archive, path / name, f"{INSIDE}/{name}")
    archive.addfile(tarfile.TarInfo(WHOLE))  # a truncated stream may look complete
    archive.close()


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    """Send one file as it is now, a folder without what is in it, or a link.

    One that becomes shorter meanwhile is filled with zeros, and one that vanishes is left out: its
    size or time then differs from that of the copy, by which `sync` knows to send it again. So does
    the time of a file that may yet change within the second that an archive keeps of it.
    """
    try:
        member = archive.gettarinfo(path, name)
        file = path.open("rb") if member.isreg() else None
    except FileNotFoundError:
        return
    except PermissionError as error:
        raise ShellError(
            f"{path} could not be read: {error.strerror}.",
            remedy="Change its mode, or name it in .gitignore.",
        ) from error
    archive.inodes.clear()  # type: ignore[attr-defined] # else it sends a second name as a link
    member.mtime = int(member.mtime) - (member.mtime >= int(time.time()))
    if file is None:
        archive.addfile(member)
        return
    with file:
        archive.addfile(member, cast("IO[bytes]", _Padded(file)))


class _Padded:
    """A file that never ends: zeros follow its content."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        return self._file.read(size).ljust(size, b"\0")


class Limits:
    """How many files, folders and bytes a host may still send into a folder."""

    def __init__(self, to: Path) -> None:
        self._target = to
        self._files = 0
        self._room = room(to)

    def take(self, size: int) -> None:
        """Count a file, before any of it is written (tarfile.TarError: too many files or bytes)."""
        self._files += 1
        self._room -= size
        if self._files > MOST_FILES:
            raise tarfile.TarError(f"it has more than {MOST_FILES:,} files and folders")
        if self._room < 0:
            raise _no_room(self._target)


def unpack(reader: StreamReader, to: Path) -> None:
    """Unpack an archive into a folder: only files and folders, each file complete or not at all.

    tarfile.TarError: it is no archive, is too large, or would write outside of the folder.
    """
    modes: list[tuple[Path, int]] = []
    limits = Limits(to)
    try:
        archive = tarfile.TarFile(fileobj=cast("IO[bytes]", reader), mode="r")
        while (member := archive.next()) is not None:
            modes += _extract(reader, member, to, limits)
            archive.members.clear()  # type: ignore[attr-defined] # else it keeps them all,
            archive.pax_headers = {}  # and global headers, which apply to all later members
            reader.header_left = MOST_HEADER
    except RecursionError as error:  # headers within headers
        raise tarfile.TarError("its headers have no end") from error
    except (ValueError, LookupError, OverflowError) as error:  # a NUL in a name, a map of no holes
        raise tarfile.TarError(f"it is no archive that can be unpacked: {error}") from error
    for folder, mode in reversed(modes):  # last, as a mode may forbid us to write into the folder
        folder.chmod(mode)


def _extract(
    reader: StreamReader, member: tarfile.TarInfo, to: Path, limits: Limits
) -> list[tuple[Path, int]]:
    """Write one member; return a new folder and its mode, to be set in the end."""
    target = _inside(member.name, to)
    if member.issparse():
        raise tarfile.TarError(f"{member.name} has holes, and may be of any size")
    limits.take(member.size)
    if member.isdir():
        return [(target, member.mode & 0o777)] if make_folder(target, limits) else []
    make_folder(target.parent, limits)
    if member.islnk():  # a hard link to an earlier file
        with _inside(member.linkname, to).open("rb") as file:
            receive(StreamReader(lambda: file.read(CHUNK)), target, member.mode & 0o777)
    elif member.isfile():
        receive(reader, target, member.mode & 0o777, member.size)
    else:
        raise tarfile.TarError(f"{member.name} is neither a file nor a folder")
    return []


def make_folder(folder: Path, limits: Limits) -> bool:
    """Make a folder and its parents, as another thread may too; return whether it is new."""
    missing = [*takewhile(lambda path: not path.is_dir(), (folder, *folder.parents))]
    new = False
    for path in reversed(missing):
        limits.take(0)
        new = True
        try:
            path.mkdir()
        except FileExistsError:
            if not path.is_dir():
                raise
            new = False
    return new


def room(to: Path) -> int:
    """Return how many bytes a host may send: the free bytes of the disk, less a reserve."""
    existing = next(path for path in (to, *to.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free - RESERVE


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
    """Write a file under a temporary name, then rename it.

    Without a size, the content is everything up to the stream's end. `good` raises if it must not
    be kept. tarfile.TarError: the stream ended too early, or the disk would be full.
    """
    part = target.with_name(part_name())
    with on_failure(lambda: _discard(part)):
        with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            remaining, folder = size, target.parent
            while remaining != 0 and (piece := reader.piece(remaining or CHUNK)):
                if len(piece) > room(folder):  # asked each time: other hosts write there, too
                    raise _no_room(folder)
                file.write(piece)
                file.flush()
                remaining = None if remaining is None else remaining - len(piece)
            if remaining:
                raise tarfile.TarError("it did not arrive whole")
        good()
        part.chmod(mode)
        part.replace(target)


def _discard(part: Path) -> None:
    with contextlib.suppress(OSError):  # the first error says more
        part.unlink()


def part_name() -> str:
    """Return a name for a file that is not complete yet: hidden, random and short."""
    return f".{secrets.token_hex(6)}.part"


class Quoted(NamedTuple):
    to: str
    part: str
    folder: str


def _quote(path: str) -> Quoted:
    target = PurePosixPath(path)
    if target.name in ("", ".."):
        raise ShellError(f"{path!r} could not be written: it names no file or folder.")
    part = target.with_name(part_name())
    return Quoted(*(shlex.quote(str(word)) for word in (target, part, target.parent)))


def file_script(path: str, size: int, mode: int) -> str:
    """Return the script that reads a file from standard input, and renames it into place.

    The size is checked: a broken connection looks like the end. ShellError: it is no file's path.
    """
    paths = _quote(path)
    return (
        f"{_begin(paths)}(umask 077 && cat > {paths.part}) || exit; "
        f"[ $(wc -c < {paths.part}) -eq {size} ] || {_NOT_WHOLE}; "
        f"chmod -- {mode:o} {paths.part} && mv -fT -- {paths.part} {paths.to}"
    )


def folder_script(path: str, source: str = "") -> str:
    """Return the script that unpacks standard input, or the output of `source` (ShellError)."""
    paths = _quote(path)
    inner, whole = f"{paths.part}/{INSIDE}", f"{paths.part}/{WHOLE}"
    unpack = f"tar -C {paths.part} -xpof -"
    if source:
        unpack = f"mkdir -- {inner} && {{ {source} && : > {whole}; }} | tar -C {inner} -xpof -"
    return (
        f"{_MERGE}{_begin(paths)}mkdir -m 700 -- {paths.part} || exit; "
        f"{unpack} || exit; [ -e {whole} ] || {_NOT_WHOLE}; "
        # Two names may be one host: another transfer may have made the folder meanwhile.
        f"[ -d {paths.to} ] || mv -fT -- {inner} {paths.to} || [ -d {paths.to} ] || exit; "
        f"[ ! -d {inner} ] || merge {inner} {paths.to}"
    )


def _begin(paths: Quoted) -> str:
    clean = shlex.quote(f"rm -rf -- {paths.part}")
    return f"mkdir -p -- {paths.folder} || exit; trap {clean} EXIT; {_EXIT_ON_SIGNALS}; "


_EXIT_ON_SIGNALS = "trap 'exit 1' HUP INT PIPE TERM"  # a shell killed by a signal runs no EXIT trap
_NOT_WHOLE = "{ echo 'it did not arrive whole' >&2; exit 1; }"
# Each file is renamed: readers see the old or the new one, and a running program keeps the old.
_MERGE = """merge() {
  case $1 in -*) set -- "./$1" "$2" ;; esac
  find "$1" -mindepth 1 -maxdepth 1 ! -type d -exec mv -f -t "$2" -- {} + || return
  for e in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    if [ ! -d "$e" ] || [ -L "$e" ]; then continue; fi
    if [ -d "$2/${e##*/}" ]; then (merge "$e" "$2/${e##*/}")
    else mv -fT -- "$e" "$2/${e##*/}"; fi || return
  done
}
"""


def fetch_script(path: str) -> str:
    """Return the script that prints `folder` and a packed folder, or a file's mode and content."""
    word = shlex.quote(path)
    return (
        f"export LC_ALL=C; "
        f"if [ -d {word} ]; then echo {FOLDER} && exec tar -C {word} -chf - .; fi; "
        f"if [ -e {word} ] && [ ! -f {word} ]; then"
        " echo 'it is neither a file nor a folder' >&2; exit 1; fi; "
        f"stat -L -c %a -- {word} && exec cat -- {word}"
    )


def only_grew(message: str) -> bool:
    """Return whether tar complains only about files that changed, as those of a running job do."""
    lines = message.splitlines()
    return bool(lines) and all(line.endswith("file changed as we read it") for line in lines)
