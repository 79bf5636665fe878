"""A run that others may see: values, definitions, parameters and facts, with pseudonyms."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from cluster.core import decoders
from cluster.core.errors import ClusterError
from cluster.core.model.hosts import PROCESS_FILE
from cluster.core.model.notes import Note
from cluster.core.model.records import Record
from cluster.core.version import __version__
from cluster.logs.redaction import GONE, NAME, redact
from cluster.runs import raw_files, store
from cluster.runs.run import MEASUREMENTS, RAW, RECORD, Run
from cluster.runs.share.fields import Names, shared, shared_definitions, shared_json
from cluster.runs.shared_file import FORMAT, VERSION, SharedPart, SharedRun, digest, summed

CRATE = "ro-crate-metadata.json"
JSON = (".json", ".jsonl")


class Replacement(NamedTuple):
    """A name that was replaced."""

    kind: str
    original: str
    pseudonym: str


class Prepared(NamedTuple):
    """A shared run, and what its owner must know about it."""

    run: SharedRun
    replaced: tuple[Replacement, ...]
    left_out: tuple[str, ...]


def prepare(folder: Path, *, with_logs: bool = False) -> Prepared:
    """Put what of a run may be shared into one value; names in logs stay (ClusterError)."""
    run = store.read(folder)
    networks = {i.address: i.network for facts in run.record.environment for i in facts.interfaces}
    first = Names(networks)
    _texts(run, first)  # finds all names, so that none of them becomes a pseudonym
    names = Names(networks, first.originals)
    texts = _texts(run, names)
    if with_logs:
        texts = {**dict(_logs(folder)), **texts}
    parts = tuple(SharedPart(name=name, text=text) for name, text in sorted(texts.items()))
    record = decoders.decode(texts[RECORD], Record)
    parts = (*parts, SharedPart(name=CRATE, text=_crate(record, parts, with_logs=with_logs)))
    shared_run = SharedRun(
        format=FORMAT, version=VERSION, simulated=run.record.simulated, parts=parts
    )
    replaced = (
        Replacement(kind, original, pseudonym)
        for (kind, original), pseudonym in names.pseudonyms.items()
        if kind != "network"
    )
    return Prepared(summed(shared_run), tuple(replaced), tuple(names.left_out))


def _texts(run: Run, names: Names) -> dict[str, str]:
    """Return the files of the shared run: each is written from values, never copied."""
    texts = {
        RECORD: _json(_record(run.record, names)),
        MEASUREMENTS: "".join(f"{_json(shared(m, names))}\n" for m in run.measurements),
    }
    if run.results:
        results = (shared(replace(r, measurements=()), names) for r in run.results)
        texts[store.RESULTS] = "".join(f"{_json(result)}\n" for result in results)
    if run.fleet:
        fleet = shared(run.fleet, names)
        bad = ", ".join(part.name or part.part for part in fleet.blamed) or "nothing is blamed"
        answer = f"{fleet.verdict}: {bad}, by {fleet.tests} tests in {fleet.rounds} rounds"
        texts[store.VERDICT] = _json(replace(fleet, answer=answer))
    raw = run.folder / RAW
    for process in raw_files.rank_processes(raw):
        texts[f"{RAW}/{PROCESS_FILE.format(rank=process.rank)}"] = _json(shared(process, names))
    for host, topology in raw_files.topologies(raw).items():
        stem = f"{raw_files.TOPOLOGY}{names.pseudonym('host', host)}"
        texts[f"{RAW}/{stem}.json"] = _json(shared(topology, names))
    if log := raw_files.nccl_log(raw):
        texts[f"{RAW}/{raw_files.SHARED_LOG}"] = _json(shared(log, names))
    return texts


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _record(record: Record, names: Names) -> Record:
    definitions = shared_definitions(record.definitions, names)
    pseudonymous = shared(record, names)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(record.at))
    for field in ("Record.id", "Record.params", "Record.definitions"):  # they are made anew
        names.left_out.pop(field, None)
    params = msgspec.json.decode(record.params)
    new = shared_json(params, names)
    is_named = isinstance(params, dict)
    lost = [key for key in params if params[key] != new.get(key)] if is_named else []
    lost += [key for key in record.variables if key not in pseudonymous.variables]
    note = Note("not_shared", (len(lost),))
    return replace(
        pseudonymous,
        id=f"{stamp}-{pseudonymous.benchmark}",
        params=msgspec.Raw(msgspec.json.encode(new)),
        definitions=definitions,
        notes=(*pseudonymous.notes, *([note] if lost else [])),
    )


def _logs(folder: Path) -> Iterator[tuple[str, str]]:
    """Read the logs of a run without secrets; names stay in them."""
    for path in sorted((folder / RAW).rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        name = path.relative_to(folder).as_posix()
        try:
            text = path.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            problem = "cannot be read" if isinstance(error, OSError) else "is no text"
            raise ClusterError(
                f"{name} {problem}, so secrets cannot be taken out of it.",
                remedy="Share the run without its logs: leave --with-logs out",
            ) from error
        if not name.isprintable():
            raise ClusterError(
                f"The name of {name!r} has control characters.", remedy="Rename it, or remove it."
            )
        is_json = path.suffix in JSON
        yield (
            name,
            "".join(map(_redacted_json, text.splitlines(True))) if is_json else _redacted(text),
        )


def _redacted(text: str) -> str:
    return b"".join(redact([text.encode()])).decode()


def _redacted_json(text: str) -> str:
    """Take secrets out of the values of a document, or of one per line, so that it stays one."""
    for portions in ([text], text.splitlines(keepends=True)):
        try:
            values = [msgspec.json.decode(portion) for portion in portions]
        except (msgspec.DecodeError, RecursionError):
            continue
        cleaned = zip(portions, values, map(_without_secrets, values), strict=True)
        return "".join(old if new == value else f"{_json(new)}\n" for old, value, new in cleaned)
    return _redacted(text)


def _without_secrets(value: object, key: str = "") -> object:
    if isinstance(value, dict):
        return {_redacted(k): _without_secrets(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_secrets(each, key) for each in value]
    if isinstance(value, str):
        return GONE if value and NAME.search(key) else _redacted(value)
    return value


def _crate(record: Record, parts: tuple[SharedPart, ...], *, with_logs: bool) -> str:
    """Describe the files: RO-Crate 1.1, https://w3id.org/ro/crate/1.1."""
    about = {"@id": "https://w3id.org/ro/crate/1.1"}
    files: list[Mapping[str, object]] = [
        {
            "@id": part.name,
            "@type": "File",
            "name": PurePosixPath(part.name).name,
            "contentSize": str(len(part.text.encode())),
            "sha256": digest(part.text.encode()),
        }
        for part in parts
    ]
    described = {"@id": CRATE, "@type": "CreativeWork", "conformsTo": about, "about": {"@id": "./"}}
    logs = ", but those in the logs are not" if with_logs else ""
    dataset = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"{record.benchmark} of {record.id}",
        "description": f"A run of cluster-ruler; names and addresses are pseudonyms{logs}.",
        "version": __version__,
        "hasPart": [{"@id": file["@id"]} for file in files],
    }
    graph = {"@context": "https://w3id.org/ro/crate/1.1/context"}
    return _json({**graph, "@graph": [described, dataset, *files]})
