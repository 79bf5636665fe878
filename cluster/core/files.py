"""Files: what has no end is not read, what is written is whole; and files of JSON lines."""

import os
import secrets
import shlex
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from cluster.core.errors import SpecError

MIB = 1 << 20
LARGEST = 64 * MIB  # bytes of a file, or of a line, that is held as a whole
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}
CHUNK = 1 << 16  # bytes read at a time, from the end backwards


def is_there(file: str | Path) -> bool:
    """Tell whether a name is that of a file, or of a pipe that is to be refused as one."""
    path = Path(file)
    return path.exists() and not path.is_dir()


def open_file(file: str | Path, remedy: str = "") -> BinaryIO:
    """Open a regular file (SpecError: it is none; others may never end, or never begin)."""
    try:
        kind = _KINDS.get(stat.S_IFMT(Path(file).stat().st_mode))
        if kind is None:
            return Path(file).open("rb")
    except (OSError, ValueError) as error:  # ValueError: a NUL in its name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SpecError(f"{file} cannot be read: {reason}.", remedy=remedy) from error
    raise SpecError(f"{file} is {kind}, and a file is needed.", remedy=remedy)


def read_file(file: str | Path, remedy: str = "", largest: int = LARGEST) -> bytes:
    """Read a whole regular file of at most `largest` bytes (SpecError)."""
    with open_file(file, remedy) as opened:
        try:
            content = opened.read(largest + 1)
        except OSError as error:
            raise SpecError(f"{file} cannot be read: {error.strerror}.", remedy=remedy) from error
    if len(content) > largest:
        raise SpecError(f"{file} is larger than {largest // MIB} MiB.", remedy=remedy)
    return content


def read_text(file: str | Path, remedy: str = "") -> str:
    """Read a whole file in UTF-8 (SpecError: as `read_file`, or it is no text)."""
    try:
        return read_file(file, remedy).decode()
    except UnicodeDecodeError as error:
        raise SpecError(f"{file} is no text in UTF-8: {error.reason}.", remedy=remedy) from error


def write_file(file: str | Path, content: bytes) -> None:
    """Write a file whole, or leave what was there (SpecError); a device or pipe as it is."""
    path = Path(file)
    try:
        if _is_stream(path):
            path.write_bytes(content)
        else:
            _replace(path.resolve(), content)
    except (OSError, ValueError) as error:  # ValueError: a NUL in its name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SpecError(
            f"{file} cannot be written: {reason}.",
            remedy="Make room, or name a file in another folder.",
        ) from error


def check_output(file: Path) -> None:
    """Refuse a file whose folder is not there, before its content is measured (SpecError)."""
    if not file.absolute().parent.is_dir():
        raise SpecError(
            f"{file} cannot be written: there is no folder {file.parent}.",
            remedy=f"Type: mkdir -p {shlex.quote(str(file.parent))}",
        )


def _is_stream(path: Path) -> bool:
    """Tell whether a path is a device or a pipe, or what a descriptor such as /dev/stdout has."""
    own = path.readlink() if path.is_symlink() else path
    descriptor = any(
        candidate.parent.resolve().is_relative_to("/proc") for candidate in (path, own)
    )
    return descriptor or (path.exists() and not path.is_file())


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            part.chmod(stat.S_IMODE(path.stat().st_mode))
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink()


def append(path: Path, text: bytes, *, sync: bool = False) -> None:
    """Add whole lines to a file, whose folder exists, in place of a last one that was cut off."""
    with path.open("a+b") as file:
        start = end = file.seek(0, os.SEEK_END)
        last = b""  # the end of the file, with the last whole line
        while start > 0 and b"\n" not in last:
            start = max(0, start - CHUNK)
            file.seek(start)
            last = file.read(end - start)
        keep = start + last.rfind(b"\n") + 1
        if keep < end:
            file.truncate(keep)
        file.write(text)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def complete_lines(text: bytes) -> list[bytes]:
    """Return the lines of a file without newlines; a last one that was cut off is left out."""
    return text[: text.rfind(b"\n") + 1].splitlines()
