"""Files and folders: what has no end is not read, what is written is whole, and who owns them."""

import fcntl
import os
import re
import secrets
import shlex
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from cluster.core.errors import ClusterError, SpecError

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
CHOOSE = "export CLUSTER_STATE=DIR"  # another state folder
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def load_script(module: str, name: str, **values: object) -> str:
    """Read a script beside a module, from its first command on; the shell gets values before it."""
    text = Path(module).with_name(name).read_text(encoding="utf-8")
    head = re.match(r"(#[ \n].*\n?)*", text)
    settings = (f"{key}={shlex.quote(str(value))}\n" for key, value in values.items())
    return "".join(settings) + text[head.end() if head else 0 :]


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
    with open_file(file, remedy) as stream:
        try:
            content = stream.read(largest + 1)
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


def text_of(path: Path) -> str:
    """Read a small text of our own or of the system; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def write_file(file: str | Path, content: bytes) -> None:
    """Write a file whole, or leave what was there (SpecError); a device or pipe as it is."""
    path = Path(file)
    try:
        # A device or a pipe, or what a descriptor such as /dev/stdout has.
        places = (path, path.readlink()) if path.is_symlink() else (path,)
        is_descriptor = any(p.parent.resolve().is_relative_to("/proc") for p in places)
        if is_descriptor or (path.exists() and not path.is_file()):
            path.write_bytes(content)
        else:
            write_whole(path.resolve(), content)
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


def write_whole(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file whole, and wait until it is on disk; without a mode, it keeps the one it has."""
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode or 0o666)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if mode is None and path.exists():
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


def is_locked(path: Path) -> bool:
    """Tell whether a live process has locked a file, which need not exist."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def complete_lines(text: bytes) -> list[bytes]:
    """Return the lines of a file without newlines; a last one that was cut off is left out."""
    return text[: text.rfind(b"\n") + 1].splitlines()


def cache_folder() -> Path:
    """Return the cache folder, whose files are kept between launches."""
    if setting := os.environ.get("CLUSTER_CACHE"):
        return Path(setting)
    import platformdirs  # noqa: PLC0415 - slow to import

    return platformdirs.user_cache_path("cluster")


def state_folder() -> Path:
    """Return the folder of all journals, which need not exist (ClusterError: others may write)."""
    if not (folder := os.environ.get("CLUSTER_STATE")):
        import platformdirs  # noqa: PLC0415 - see above

        folder = platformdirs.user_state_dir("cluster")
    check_owner(path := Path(folder).resolve(), CHOOSE)
    return path


def owned_lines(path: Path) -> list[bytes]:
    """Read whole lines of a state folder's file (OSError, ClusterError: others may write there)."""
    check_owner(path.parent, CHOOSE)
    check_owner(path, CHOOSE)
    return complete_lines(path.read_bytes())


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents, readable by their owner only."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)  # an error if it is a file


def check_owner(path: Path, choose: str) -> None:
    """Refuse a path that another user may have written (ClusterError): it decides what runs.

    The group's permission to write is removed from a folder of the caller. `choose` is the setting
    for another place, such as `CLUSTER_STATE=DIR`.
    """
    try:
        status = path.stat()
    except OSError:
        return
    if status.st_uid != os.geteuid():
        raise ClusterError(
            f"{path} belongs to another user (uid {status.st_uid}, not {os.geteuid()}).",
            means="Its contents decide which programs run, so it is neither read nor written.",
            remedy=f"Choose a folder of your own: {choose}",
        )
    if status.st_mode & stat.S_IWOTH:
        raise ClusterError(
            f"All users of this machine may write into {path}.",
            means="Its contents decide which programs run, so it is neither read nor written.",
            remedy=f"Choose a folder of your own: {choose}\n"
            f"Or, if you know that everything in it is yours: chmod -R go-w {path}",
        )
    if status.st_mode & OTHERS_WRITE:
        with suppress(OSError):
            path.chmod(stat.S_IMODE(status.st_mode) & ~OTHERS_WRITE)
