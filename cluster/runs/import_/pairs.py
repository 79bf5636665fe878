"""Import of tests of pairs of hosts: logs of other tools become a run of `cluster check`."""

import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cluster.core.errors import SpecError, on_failure
from cluster.core.files import LARGEST, MIB
from cluster.core.model.fleet import DeviceKind, PairLogs, PairMetric
from cluster.core.model.hosts import Machine
from cluster.core.model.measurements import Definition
from cluster.core.model.notes import Note
from cluster.core.model.records import Record
from cluster.core.model.spec import ClusterSpec
from cluster.core.version import __version__, revision
from cluster.fleet.pair_logs import fleet_tests
from cluster.fleet.pair_measurements import measurements_of
from cluster.logs.hosts import host_order
from cluster.logs.redaction import redact
from cluster.reports.words.notes import assumption_words, no_value_words
from cluster.runs import store
from cluster.runs.import_.devices import LogText
from cluster.runs.import_.logs import NAME, log_chunks, raw_places
from cluster.runs.import_.pair_reader import PairLogOptions, read_pairs
from cluster.runs.run import PAIRS, RAW, Run

GLOB = "*?["


class ImportedPairsParams(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a run of pairs that was made from logs: those that a verdict needs."""

    metric: PairMetric
    groups: tuple[int, ...]
    directed: bool
    foreign: bool = True
    title: str
    limit: float | None
    devices: DeviceKind
    assumptions: tuple[str, ...]
    left_out: tuple[str, ...] = ()  # what is not used, each with the reason


def import_pairs(words: Sequence[str], where: Path, options: PairLogOptions) -> Run:
    """Make a run folder from logs of pairs: files, folders, or patterns like `logs/*.out`."""
    at = time.time()
    folder = store.create(where, NAME, PAIRS, at)
    with on_failure(lambda: shutil.rmtree(folder, ignore_errors=True)):
        texts = [_read_and_copy(file, folder / RAW) for file in log_files(words)]
        logs = read_pairs(texts, options)
        names = host_order(host for pair in logs.pairs for host in pair.hosts)
        machines = tuple(
            Machine(name=name, id=name, address=name, shell=NAME, folder="", bin="")
            for name in names
        )
        record = _record(folder, at, logs, machines, options)
        (definition,) = record.definitions.values()
        tests = [
            msgspec.structs.replace(test, reason=no_value_words(reason)) if reason else test
            for test, reason in fleet_tests(logs, names)
        ]
        store.append(folder, measurements_of(tests, definition, names))
        store.write(folder, record)
    return store.read(folder)


def log_files(words: Sequence[str]) -> list[str]:
    """Find the files that are meant, those of a folder sorted and not hidden (SpecError: none)."""
    files: list[str] = []
    for word in words:
        path = Path(word)
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file() and p.name[0] != ".")
        elif not path.exists() and any(mark in word for mark in GLOB):
            inside = sorted(p for p in Path(path.anchor).glob(word.lstrip("/")) if p.is_file())
        else:
            inside = [path]
        if not inside:
            raise SpecError(f"There are no files in {word}.", remedy="Name the logs of the pairs.")
        files += map(str, inside)
    return list(dict.fromkeys(files))


def _read_and_copy(file: str, raw: Path) -> LogText:
    raw.mkdir(exist_ok=True)
    parts: list[bytes] = []
    size = 0
    for part in redact(log_chunks(file, None)):
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            raise SpecError(
                f"{file} is larger than {LARGEST // MIB} MiB.",
                means="A log of a pair of hosts has a few KiB.",
                remedy="Name the logs of pairs alone, or a part of this one.",
            )
    data = b"".join(parts)
    next(p for p in raw_places(raw, Path(file).name) if not p.exists()).write_bytes(data)
    return LogText(file, data.decode("utf-8", "replace"))


def _record(
    folder: Path, at: float, logs: PairLogs, machines: tuple[Machine, ...], options: PairLogOptions
) -> Record:
    definition = Definition(
        benchmark=PAIRS,
        metric=logs.metric,
        unit="B/s" if logs.metric == "bandwidth" else "s",
        better="higher" if logs.metric == "bandwidth" else "lower",
        what=f"a value of each pair, as logs have it: {logs.title}",
        clock="that of the tool",
        synchronisation="not known",
        warm_up="not known",
        aggregation="one rank",
    )
    params = ImportedPairsParams(
        metric=logs.metric,
        groups=options.grouping(machines) if options.grouping else (),
        directed=logs.directed,
        title=logs.title,
        limit=options.limit,
        devices=logs.devices,
        assumptions=tuple(
            assumption_words(assumption)
            for assumption in logs.assumptions
            if not (options.limit and assumption.code == "no_limit")
        ),
        left_out=logs.left_out,
    )
    return Record(
        id=folder.name,
        benchmark=PAIRS,
        status="done",
        at=at,
        spec=ClusterSpec(name=NAME, provider=NAME, hosts=len(machines)),
        machines=machines,
        params=msgspec.Raw(msgspec.json.encode(params)),
        argv=tuple(sys.argv),
        definitions={definition.id: definition},
        notes=(
            Note("made_from_logs", (logs.title,)),
            *(Note("assumed", (assumption_words(a),)) for a in logs.assumptions),
            *(Note("left_out", (text,)) for text in logs.left_out),
        ),
        software=__version__,
        revision=revision(),
    )
