"""A run in one file, to be shared: with pseudonyms, checksums and RO-Crate metadata."""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.hosts import SIMULATED
from cluster.core.model.records import Record
from cluster.core.model.value import Value
from cluster.core.version import __version__
from cluster.logs.redaction import redact
from cluster.runs.pseudonyms import Replacement, left, replace, replacements

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = "cluster-share"
VERSION = 1
HEAD = f'{{"format":"{FORMAT}"'.encode()  # how every shared file begins
CRATE = "ro-crate-metadata.json"
RECORD = "run.json"
JSON = (".json", ".jsonl")
NAMESPACE = FORMAT  # of an SSH signature


class SharedPart(Value, frozen=True, kw_only=True):
    """A file of a shared run.

    Args:
        name: its path in the run's folder.
        sha256: hex digest of its text in UTF-8.
        text: its content.

    """

    name: str
    sha256: str
    text: str


class SharedRun(Value, frozen=True, kw_only=True):
    """A run in one file.

    Args:
        format: always `cluster-share`.
        version: of the format.
        simulated: whether its hosts were simulated, so that nothing was measured.
        sha256: hex digest of `listing`; a signature signs the same text.
        parts: files of the run's folder, with pseudonyms.
        signature: of `ssh-keygen -Y sign`, ASCII-armoured; empty if it is not signed.

    """

    format: str
    version: int
    simulated: bool
    sha256: str
    parts: tuple[SharedPart, ...]
    signature: str = ""

    @property
    def listing(self) -> str:
        """Format, version, and the names and checksums of all parts, as `sha256sum` writes them."""
        return listing(self.parts, self.version, simulated=self.simulated)


class _Version(msgspec.Struct, frozen=True):
    format: str
    version: int


def prepare(folder: Path) -> tuple[SharedRun, tuple[Replacement, ...]]:
    """Replace the names in a run by pseudonyms, and put its files into one value.

    Args:
        folder: of the run.

    Returns:
        The shared run, and the replacements.

    Raises:
        ClusterError: it has a file that is not text, or a name that could not be replaced.

    """
    texts = _texts(folder)
    decoded = [_decoded(line) for name, text in texts.items() for line in _documents(name, text)]
    found = replacements(texts.values(), decoded)
    shared = {replace(name, found): replace(text, found) for name, text in texts.items()}
    for name, text in shared.items():
        if still := left(text, found):
            raise ClusterError(
                f"{name} still holds {still[0].original!r} ({still[0].kind}).",
                means="Nothing was written, as it would be seen by others.",
            )
    parts = tuple(_part(name, text) for name, text in sorted(shared.items()))
    record = msgspec.json.decode(shared[RECORD], type=Record)
    parts = (*parts, _part(CRATE, _crate(record, parts)))
    simulated = any(machine.shell == SIMULATED for machine in record.machines)
    made = SharedRun(
        format=FORMAT,
        version=VERSION,
        simulated=simulated,
        sha256=_digest(listing(parts, VERSION, simulated=simulated)),
        parts=parts,
    )
    return made, found


def listing(parts: tuple[SharedPart, ...], version: int, *, simulated: bool) -> str:
    """Give the text that the checksum and the signature cover.

    Args:
        parts: of a shared run.
        version: of its format.
        simulated: whether its hosts were simulated.

    Returns:
        One line for the run, and one line for each part.

    """
    head = f"# {FORMAT} {version}, {'simulated' if simulated else 'measured'}\n"
    return head + "".join(f"{part.sha256}  {part.name}\n" for part in parts)


def encode(run: SharedRun) -> bytes:
    """Encode a shared run as the bytes of its file.

    Args:
        run: to encode.

    Returns:
        The bytes; the same run gives the same bytes.

    """
    return msgspec.json.encode(run) + b"\n"


def is_shared(path: Path) -> bool:
    """Distinguish a shared run from a log.

    Args:
        path: of a file.

    Returns:
        Whether it is a shared run, by its first bytes.

    """
    try:
        with path.open("rb") as file:
            return file.read(len(HEAD)) == HEAD
    except OSError:
        return False


def decode(content: bytes, name: str) -> SharedRun:
    """Read a shared run, and check it against its checksums.

    Args:
        content: of the file.
        name: of the file, for messages.

    Returns:
        The run.

    Raises:
        SpecError: it is no shared run, was changed or truncated, or has a newer format.

    """
    try:
        known = msgspec.json.decode(content, type=_Version)
        if known.format != FORMAT:
            raise SpecError(f"{name} is no shared run: its format is {known.format!r}.")
        if known.version > VERSION:
            raise SpecError(
                f"{name} is of version {known.version}, and this is for version {VERSION}.",
                remedy="Install a newer cluster-ruler.",
            )
        run = msgspec.json.decode(content, type=SharedRun)
    except msgspec.DecodeError as error:
        raise SpecError(
            f"{name} is no shared run, or was cut off: {error}.", remedy="Get it again."
        ) from error
    changed = [part.name for part in run.parts if _digest(part.text) != part.sha256]
    if changed:
        raise SpecError(f"{name} was changed: {', '.join(changed)} is not what was shared.")
    if _digest(run.listing) != run.sha256 or encode(run) != content:
        raise SpecError(f"{name} was changed since it was written.")
    return run


def unpack(path: Path) -> Path:
    """Write the files of a shared run into a folder that is deleted when the process ends.

    Args:
        path: of the file.

    Returns:
        The folder of the run.

    Raises:
        SpecError: the file cannot be read, or was changed.

    """
    try:
        run = decode(path.read_bytes(), path.name)
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}.") from error
    place = Path(tempfile.mkdtemp(prefix="cluster-share-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    folder = place / "shared" / path.name.partition(".")[0]
    for part in run.parts:
        inside = PurePosixPath(part.name)
        if inside.is_absolute() or ".." in inside.parts:
            raise SpecError(f"{path.name} names a file outside of its run: {part.name!r}.")
        target = folder / inside
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        target.write_text(part.text, encoding="utf-8", newline="")
    return folder


def _texts(folder: Path) -> dict[str, str]:
    """Read all files of a run, without secrets."""
    texts = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        name = path.relative_to(folder).as_posix()
        content = path.read_bytes()
        if path.suffix not in JSON:
            content = b"".join(redact([content]))
        try:
            texts[name] = content.decode()
        except UnicodeDecodeError as error:
            raise ClusterError(
                f"{name} is no text, so the names in it cannot be replaced.",
                remedy="Share a copy of the run without it.",
            ) from error
    return texts


def _documents(name: str, text: str) -> list[str]:
    if name.endswith(".jsonl"):
        return text.splitlines()
    return [text] if name.endswith(".json") else []


def _decoded(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _part(name: str, text: str) -> SharedPart:
    return SharedPart(name=name, sha256=_digest(text), text=text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _crate(record: Record, parts: tuple[SharedPart, ...]) -> str:
    """Describe the files: RO-Crate 1.1, https://w3id.org/ro/crate/1.1."""
    about = {"@id": "https://w3id.org/ro/crate/1.1"}
    files: list[Mapping[str, object]] = [
        {
            "@id": part.name,
            "@type": "File",
            "name": PurePosixPath(part.name).name,
            "contentSize": str(len(part.text.encode())),
            "sha256": part.sha256,
        }
        for part in parts
    ]
    described = {
        "@id": CRATE,
        "@type": "CreativeWork",
        "conformsTo": about,
        "about": {"@id": "./"},
    }
    dataset = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"{record.benchmark} of {record.id}",
        "description": "A run of cluster-ruler; names and addresses are pseudonyms.",
        "version": __version__,
        "hasPart": [{"@id": file["@id"]} for file in files],
    }
    graph = {"@context": "https://w3id.org/ro/crate/1.1/context"}
    return msgspec.json.encode({**graph, "@graph": [described, dataset, *files]}).decode()
