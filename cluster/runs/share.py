"""Makes a run ready to be shared: with pseudonyms, checksums and RO-Crate metadata."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from cluster.core.errors import ClusterError
from cluster.core.model.hosts import SIMULATED
from cluster.core.model.records import Record
from cluster.core.version import __version__
from cluster.logs.redaction import redact
from cluster.logs.secret_patterns import without_secrets
from cluster.runs.pseudonyms import (
    Replacement,
    left,
    replace,
    replace_in_name,
    replacements,
)
from cluster.runs.shared_file import (
    FORMAT,
    VERSION,
    SharedRun,
    digest,
    listing,
    part_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cluster.runs.shared_file import SharedPart

CRATE = "ro-crate-metadata.json"
RECORD = "run.json"
JSON = (".json", ".jsonl")
SLASH = re.compile(r"(?<!\\)((?:\\\\)*)\\/")  # some programs write / as \/ in JSON


def prepare(folder: Path) -> tuple[SharedRun, tuple[Replacement, ...]]:
    """Replace the names in a run by pseudonyms, and put its files into one value.

    Raises:
        ClusterError: it has a file that is not text, or a name that could not be replaced.

    """
    texts = _texts(folder)
    decoded = [_decoded(line) for name, text in texts.items() for line in _documents(name, text)]
    escaped = (text for value in decoded for text in _escaped_strings(value))
    found = replacements((*texts, *texts.values(), *escaped), decoded)
    shared = {
        replace_in_name(without_secrets(name), found): replace(name, text, found)
        for name, text in texts.items()
    }
    if len(shared) < len(texts):
        raise ClusterError(
            "Two files of the run have the same name without the secrets in it.",
            means="One of them would be missing, so nothing was written.",
            remedy="Rename them, or share a copy of the run without them.",
        )
    for name, text in shared.items():
        if still := left(name, text, found):
            raise ClusterError(
                f"{name} still holds {still[0].original!r} ({still[0].kind}).",
                means="Nothing was written, as it would be seen by others.",
            )
    parts = tuple(part_of(name, text) for name, text in sorted(shared.items()))
    record = msgspec.json.decode(shared[RECORD], type=Record)
    parts = (*parts, part_of(CRATE, _crate(record, parts)))
    simulated = any(machine.shell == SIMULATED for machine in record.machines)
    made = SharedRun(
        format=FORMAT,
        version=VERSION,
        simulated=simulated,
        sha256=digest(listing(parts, VERSION, simulated=simulated)),
        parts=parts,
    )
    return made, found


def _texts(folder: Path) -> dict[str, str]:
    """Read all files of a run, without secrets."""
    texts = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        name = path.relative_to(folder).as_posix()
        content = path.read_bytes()
        try:
            text = b"".join(redact([content])).decode()
            texts[name] = SLASH.sub(r"\1/", text) if path.suffix in JSON else text
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


def _escaped_strings(value: object) -> Iterator[str]:
    """Return the strings of several lines, or of unusual letters: JSON writes them with escapes."""
    if isinstance(value, str):
        if not value.isascii() or not value.isprintable():
            yield value
    elif isinstance(value, (list, dict)):
        items = (*value, *value.values()) if isinstance(value, dict) else value
        for item in items:
            yield from _escaped_strings(item)


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
