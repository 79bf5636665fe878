"""Import of tests of pairs of hosts: logs of other tools become a run of `cluster check`."""

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from cluster.core.errors import ParseError, SpecError, on_failure
from cluster.core.model.hosts import Machine, full_names
from cluster.core.model.logs import Reading
from cluster.core.model.network.fleet import (
    DeviceKind,
    LoggedPair,
    NoValue,
    PairAssumption,
    PairLogs,
    PairMetric,
)
from cluster.core.model.results.measurements import Definition
from cluster.core.model.results.records import Note, Record
from cluster.core.model.spec import ClusterSpec
from cluster.core.state.files import LARGEST, MIB
from cluster.core.version import __version__, revision
from cluster.fleet.pair_logs import (
    BOTH_WAYS,
    UNKNOWN,
    PairResult,
    fleet_tests,
    has_metric,
    pair_logs,
)
from cluster.fleet.pair_measurements import measurements_of
from cluster.logs.hosts import (
    HostValues,
    host_lines,
    host_order,
    hosts_by_pattern,
    hosts_in_name,
    hosts_of_results,
    read_host_values,
)
from cluster.logs.reader import read
from cluster.logs.redaction import redact
from cluster.reports.words.notes import FAILED_TESTS, assumption_words, no_value_words, other_tests
from cluster.runs import store
from cluster.runs.import_.devices import (
    DeviceLogs,
    LogText,
    ReadLog,
    UnreadLog,
    matrix_kinds,
    readers,
)
from cluster.runs.import_.logs import NAME, log_chunks, raw_places
from cluster.runs.run import PAIRS, RAW, Run

Grouping = Callable[[Sequence[Machine]], tuple[int, ...]]

PAIR = 2  # hosts
NAMED = 3  # files in a message
ROW_SENDS = PairAssumption("row_sends")


class PairLogOptions(NamedTuple):
    metric: PairMetric = "bandwidth"  # to judge
    # of the names of files, such as `bw_{a}_{b}.log`; empty to find hosts in them
    pattern: str = ""
    series: str = ""  # words in the name of the test, if the logs have several
    grouping: Grouping | None = None  # gives the group of each host; none if they are not known
    # the highest value that a pair can reach, in bytes per second, if it is known
    limit: float | None = None


def read_pairs(texts: Sequence[LogText], options: PairLogOptions) -> PairLogs:
    """Read tables of hosts, or logs of pairs of hosts, or those of devices of one host.

    A SpecError says that the hosts of a log are unknown, or that the logs have several tests or
    none; a ParseError, that values of a table are impossible.
    """
    tables = [(log, table) for log in texts if (table := _table(log)) is not None]
    if tables:
        names = [
            Path(log.file).name for log in texts if log not in [log_read for log_read, _ in tables]
        ]
        return _of_tables(tables, options.metric, names)
    readings: list[ReadLog] = []
    unread: list[UnreadLog] = []
    for log in texts:
        try:
            readings.append(ReadLog(log, read([log.text.encode()])))
        except ParseError as error:
            unread.append(UnreadLog(log, error.what))
    pairs = {
        frozenset(hosts)
        for each_log in readings
        for hosts in _hosts(*each_log, options.pattern)
        if len(hosts) == PAIR
    }
    # The logs name several pairs of hosts; if not, they may be of one host's NICs.
    of_hosts = bool(options.pattern) or len(pairs) > 1
    logs = DeviceLogs(readings, unread, options.metric, options.series, of_hosts)
    return next(
        filter(None, (reader.read(logs) for reader in readers().values())), None
    ) or _of_hosts(readings, unread, options)


def _of_hosts(
    readings: Sequence[ReadLog], unread: Sequence[UnreadLog], options: PairLogOptions
) -> PairLogs:
    """Return the values of pairs of hosts; those of devices of a host are left out."""
    left_out: list[str] = []
    failures: list[LoggedPair] = []
    for log, message in unread:  # a pair that failed, if the name of its log has one
        name = Path(log.file).name
        pair = hosts_by_pattern(options.pattern, name) if options.pattern else hosts_in_name(name)
        if pair is None:
            left_out.append(f"{name}: {message}")
        else:
            reason = NoValue(code="failed", text=message.rstrip("."))
            failures.append(LoggedPair(hosts=pair, value=None, reason=reason, log=log.file))
    inside = [o for o in readings if any(map(matrix_kinds, o[1].results))]
    left_out += [f"{Path(each_log.log.file).name}: of devices of one host" for each_log in inside]
    of_hosts = [each_log for each_log in readings if each_log not in inside]
    results = list(_results(of_hosts, options, left_out))
    logs = pair_logs(results, options.metric, options.series)
    if not (logs.pairs or failures):
        raise SpecError(
            "None of these files is a log of a pair of hosts.",
            means="; ".join(left_out[:NAMED]),
            remedy="Name logs of tests between two hosts, such as osu_bw, iperf3 or nccl-tests, or "
            "a table: host_a,host_b,GB/s in its first line, and a line per pair.",
        )
    pairs, one_host = _by_full_names((*logs.pairs, *failures))
    return msgspec.structs.replace(
        logs,
        title=logs.title or FAILED_TESTS,
        pairs=pairs,
        left_out=(*left_out, *one_host, *other_tests(logs)),
    )


def _table(log: LogText) -> HostValues | None:
    try:
        return read_host_values(log.text)
    except ParseError as error:
        raise ParseError(f"{log.file}: {error.what}", remedy=error.remedy) from error


def _of_tables(
    tables: Sequence[tuple[LogText, HostValues]], metric: PairMetric, other_files: Sequence[str]
) -> PairLogs:
    """Join the cells of tables; a pair that occurs in both orders has two directions."""
    fit = [(log, table) for log, table in tables if table.metric == metric]
    if not fit:
        other = tables[0][1].metric
        message = f"The table has a {other}, and no {metric}."
        raise SpecError(message, remedy=f"Judge that: cluster check --metric {other} --from ...")
    pairs = tuple(
        LoggedPair(
            hosts=(cell.source, cell.target),
            value=cell.value,
            reason=None if cell.value else NoValue(code="empty_cell", line=cell.line),
            log=log.file,
        )
        for log, table in fit
        for cell in table.cells
    )
    pairs, one_host = _by_full_names(pairs)
    host_pairs = {pair.hosts for pair in pairs}
    is_directed = metric == "bandwidth" and any((b, a) in host_pairs for a, b in host_pairs)
    return PairLogs(
        title=fit[0][1].title,
        metric=metric,
        directed=is_directed,
        pairs=pairs,
        assumptions=(ROW_SENDS if is_directed else BOTH_WAYS, *UNKNOWN),
        left_out=(*one_host, *(f"{name}: no table of hosts" for name in other_files)),
    )


def _by_full_names(pairs: Iterable[LoggedPair]) -> tuple[tuple[LoggedPair, ...], tuple[str, ...]]:
    """Return the pairs with one name per host, and those of one host, which are left out."""
    all_pairs = tuple(pairs)
    full = full_names(host for pair in all_pairs for host in pair.hosts)
    host_pairs, left_out = [], []
    for pair in all_pairs:
        first, second = pair.hosts
        if full[first] == full[second]:
            left_out.append(f"{Path(pair.log).name}: {first} and {second} are one host")
        else:
            host_pairs.append(msgspec.structs.replace(pair, hosts=(full[first], full[second])))
    return tuple(host_pairs), tuple(left_out)


def _results(
    readings: Sequence[ReadLog], options: PairLogOptions, left_out: list[str]
) -> Iterator[PairResult]:
    unknown: list[str] = []
    for log, reading in readings:
        all_hosts = _hosts(log, reading, options.pattern)
        for hosts, result in zip(all_hosts, reading.results, strict=True):
            if len(hosts) == PAIR:
                yield PairResult(log.file, (hosts[0], hosts[1]), result)
            elif hosts:
                place = "one host" if len(hosts) == 1 else f"{len(hosts)} hosts"
                left_out.append(f"{Path(log.file).name}: {result.title}: it ran on {place}")
            elif has_metric(result, options.metric):
                unknown.append(log.file)
            elif result.measurements:
                left_out.append(f"{Path(log.file).name}: {result.title}: no {options.metric}")
    if unknown:
        files = list(dict.fromkeys(unknown))
        names = ", ".join(Path(file).name for file in files[:NAMED])
        more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
        raise SpecError(
            f"Which two hosts these logs are between is not known: {names}{more}.",
            means="Neither their lines nor their names say it in a way that has one meaning.",
            remedy="Say where the hosts are in the names: --pairs-pattern 'bw_{a}_{b}.log', or "
            "write a table: host_a,host_b,GB/s in its first line, and a line per pair.",
        )


def _hosts(log: LogText, reading: Reading, pattern: str) -> list[tuple[str, ...]]:
    """Return the hosts of each result: by the pattern, by the lines of the log, or by its name."""
    name = Path(log.file).name
    if pattern:
        return [hosts_by_pattern(pattern, name) or ()] * len(reading.results)
    results = hosts_of_results(host_lines(log.text), [result.first for result in reading.results])
    file_hosts = hosts_in_name(name) or ()
    full = full_names(host for hosts in results for host in hosts)
    return [tuple(dict.fromkeys(full[host] for host in hosts)) or file_hosts for hosts in results]


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


def import_pairs(words: Sequence[str], root: Path, options: PairLogOptions) -> Run:
    """Make a run folder from logs of pairs: files, folders, or patterns like `logs/*.out`."""
    now = time.time()
    folder = store.create(root, NAME, PAIRS, now)
    with on_failure(lambda: shutil.rmtree(folder, ignore_errors=True)):
        texts = [_read_and_copy(file, folder / RAW) for file in log_files(words)]
        logs = read_pairs(texts, options)
        names = host_order(host for pair in logs.pairs for host in pair.hosts)
        machines = tuple(
            Machine(name=name, id=name, address=name, shell=NAME, folder="", bin="")
            for name in names
        )
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
        record = Record(
            id=folder.name,
            benchmark=PAIRS,
            status="done",
            at=now,
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
            paths = sorted(p for p in path.rglob("*") if p.is_file() and p.name[0] != ".")
        elif not path.exists() and any(mark in word for mark in GLOB):
            paths = sorted(p for p in Path(path.anchor).glob(word.lstrip("/")) if p.is_file())
        else:
            paths = [path]
        if not paths:
            raise SpecError(f"There are no files in {word}.", remedy="Name the logs of the pairs.")
        files += map(str, paths)
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
