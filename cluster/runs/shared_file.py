"""The file of a shared run: its format, its checksum, and how it is read."""

import atexit
import hashlib
import shutil
import tempfile
from pathlib import Path, PurePosixPath

import msgspec

from cluster.core import decoders
from cluster.core.errors import SpecError
from cluster.core.model.value import Value
from cluster.core.state.files import open_file, read_file

FORMAT = "cluster-share"
VERSION = 1
HEAD = f'{{"format":"{FORMAT}"'.encode()  # how every shared file begins
LARGEST = 1 << 29  # bytes of a shared run
AGAIN = "Get the file again from who shared it."


class SharedPart(Value, frozen=True, kw_only=True):
    name: str
    text: str


class SharedRun(Value, frozen=True, kw_only=True):
    format: str  # always `cluster-share`
    version: int
    simulated: bool
    sha256: str = ""  # hex digest of all the rest, in JSON
    parts: tuple[SharedPart, ...]


class NewerFormatError(SpecError):
    """A shared file is of a newer version than this one reads."""


class _Version(msgspec.Struct, frozen=True):
    format: str
    version: int


def seal(run: SharedRun) -> SharedRun:
    bare = msgspec.structs.replace(run, sha256="")
    return msgspec.structs.replace(run, sha256=digest(msgspec.json.encode(bare)))


def encode(run: SharedRun) -> bytes:
    """Encode a shared run as the bytes of its file, always the same for the same run."""
    return msgspec.json.encode(run) + b"\n"


def is_shared(path: Path) -> bool:
    """Tell a shared run from a log, by its first bytes."""
    try:
        with open_file(path) as file:
            return file.read(len(HEAD)) == HEAD
    except (SpecError, OSError):
        return False


def decode(content: bytes, name: str) -> SharedRun:
    """Read a shared run, and check it against its checksums (SpecError, NewerFormatError)."""
    try:
        header = decoders.decode(content, _Version)
        if header.format != FORMAT:
            raise SpecError(f"{name} is no shared run: its format is {header.format!r}.")
        if header.version > VERSION:
            raise NewerFormatError(
                f"{name} is of version {header.version}, and this is for version {VERSION}.",
                means="So it cannot be checked whether it was changed.",
                remedy="Install a newer cluster-ruler: pip install --upgrade cluster-ruler",
            )
        run = decoders.decode(content, SharedRun)
    except decoders.UNREADABLE as error:
        raise SpecError(
            f"{name} is no shared run, or was cut off or changed: {error!s:.300}.", remedy=AGAIN
        ) from error
    if seal(run) != run or encode(run) != content:
        raise SpecError(f"{name} was changed since it was written.", remedy=AGAIN)
    names = [part.name for part in run.parts]
    wrong = next(
        (member for member in names if not member.isprintable() or names.count(member) > 1), None
    )
    if wrong is not None:
        raise SpecError(f"{name} has a file {wrong!r} twice, or with control characters.")
    return run


def unpack(path: Path) -> Path:
    """Write a shared run into a folder that is deleted when the process ends (SpecError)."""
    run = decode(read_file(path, largest=LARGEST), path.name)
    place = Path(tempfile.mkdtemp(prefix="cluster-share-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    folder = place / "shared" / path.name.partition(".")[0]
    for part in run.parts:
        inside = PurePosixPath(part.name)
        if inside.is_absolute() or ".." in inside.parts:
            raise SpecError(f"{path.name} names a file outside of its run: {part.name!r}.")
        target = folder / inside
        try:
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            target.write_text(part.text, encoding="utf-8", newline="")
        except (OSError, ValueError) as error:  # ValueError: a name with a NUL
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise SpecError(
                f"{part.name!r} of {path.name} cannot be written to {target.parent}: {reason}.",
                means="A shared run is unpacked into a folder for temporary files before it is "
                "read.",
                remedy="Make room there, or name another place: export TMPDIR=DIR",
            ) from error
    return folder


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
