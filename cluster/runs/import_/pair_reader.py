"""Values of pairs of hosts, or of devices of one host, in the logs of other tools."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from cluster.core.errors import ParseError, SpecError
from cluster.core.model.fleet import LoggedPair, NoValue, PairAssumption, PairLogs, PairMetric
from cluster.core.model.hosts import Machine, full_names
from cluster.core.model.logs import Reading
from cluster.fleet.pair_logs import BOTH_WAYS, UNKNOWN, PairResult, has_metric, pair_logs
from cluster.logs.hosts import (
    HostValues,
    host_lines,
    hosts_by_pattern,
    hosts_in_name,
    hosts_of_results,
    read_host_values,
)
from cluster.logs.reader import read
from cluster.runs.import_.devices import (
    DeviceLogs,
    LogText,
    ReadLog,
    UnreadLog,
    matrix_kinds,
    read_devices,
)

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
    readings, unread = _readings(texts)
    of_hosts = _are_of_several_pairs(readings, options.pattern)
    within = read_devices(DeviceLogs(readings, unread, options.metric, options.series, of_hosts))
    return within or _of_hosts(readings, unread, options)


def _are_of_several_pairs(readings: Sequence[ReadLog], pattern: str) -> bool:
    """Tell whether the logs name several pairs of hosts; if not, they may be of one host's NICs."""
    pairs = {
        frozenset(hosts)
        for log in readings
        for hosts in _hosts(*log, pattern)
        if len(hosts) == PAIR
    }
    return bool(pattern) or len(pairs) > 1


def _of_hosts(
    readings: Sequence[ReadLog], unread: Sequence[UnreadLog], options: PairLogOptions
) -> PairLogs:
    """Return the values of pairs of hosts; those of devices of a host are left out."""
    left_out: list[str] = []
    failed: list[LoggedPair] = []
    for log, reason in unread:
        _note_failure(log.file, reason, options.pattern, left_out, failed)
    inside = [o for o in readings if any(map(matrix_kinds, o[1].results))]
    left_out += [f"{Path(each_log.log.file).name}: of devices of one host" for each_log in inside]
    of_hosts = [each_log for each_log in readings if each_log not in inside]
    results = list(_results(of_hosts, options, left_out))
    logs = pair_logs(results, options.metric, options.series)
    if not (logs.pairs or failed):
        raise SpecError(
            "None of these files is a log of a pair of hosts.",
            means="; ".join(left_out[:NAMED]),
            remedy="Name logs of tests between two hosts, such as osu_bw, iperf3 or nccl-tests, or "
            "a table: host_a,host_b,GB/s in its first line, and a line per pair.",
        )
    pairs, one_host = _by_full_names((*logs.pairs, *failed))
    return msgspec.structs.replace(
        logs, pairs=pairs, left_out=(*left_out, *one_host, *logs.left_out)
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
    directed = metric == "bandwidth" and any((b, a) in host_pairs for a, b in host_pairs)
    return PairLogs(
        title=fit[0][1].title,
        metric=metric,
        directed=directed,
        pairs=pairs,
        assumptions=(ROW_SENDS if directed else BOTH_WAYS, *UNKNOWN),
        left_out=(*one_host, *(f"{name}: no table of hosts" for name in other_files)),
    )


def _by_full_names(pairs: Iterable[LoggedPair]) -> tuple[tuple[LoggedPair, ...], tuple[str, ...]]:
    """Return the pairs with one name per host, and those of one host, which are left out."""
    all_pairs = tuple(pairs)
    full = full_names(host for pair in all_pairs for host in pair.hosts)
    renamed, left_out = [], []
    for pair in all_pairs:
        first, second = pair.hosts
        if full[first] == full[second]:
            left_out.append(f"{Path(pair.log).name}: {first} and {second} are one host")
        else:
            renamed.append(msgspec.structs.replace(pair, hosts=(full[first], full[second])))
    return tuple(renamed), tuple(left_out)


def _readings(texts: Sequence[LogText]) -> tuple[list[ReadLog], list[UnreadLog]]:
    readings, unread = [], []
    for log in texts:
        try:
            readings.append(ReadLog(log, read([log.text.encode()])))
        except ParseError as error:
            unread.append(UnreadLog(log, error.what))
    return readings, unread


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
                where = "one host" if len(hosts) == 1 else f"{len(hosts)} hosts"
                left_out.append(f"{Path(log.file).name}: {result.title}: it ran on {where}")
            elif has_metric(result, options.metric):
                unknown.append(log.file)
            elif result.measurements:
                left_out.append(f"{Path(log.file).name}: {result.title}: no {options.metric}")
    if unknown:
        raise _unknown_hosts(list(dict.fromkeys(unknown)))


def _note_failure(
    file: str, problem: str, pattern: str, left_out: list[str], failed: list[LoggedPair]
) -> None:
    """Note a log without a result: a pair that failed, if its name has one."""
    name = Path(file).name
    pair = hosts_by_pattern(pattern, name) if pattern else hosts_in_name(name)
    if pair is None:
        left_out.append(f"{name}: {problem}")
    else:
        reason = NoValue(code="failed", text=problem.rstrip("."))
        failed.append(LoggedPair(hosts=pair, value=None, reason=reason, log=file))


def _hosts(log: LogText, reading: Reading, pattern: str) -> list[tuple[str, ...]]:
    """Return the hosts of each result: by the pattern, by the lines of the log, or by its name."""
    name = Path(log.file).name
    if pattern:
        return [hosts_by_pattern(pattern, name) or ()] * len(reading.results)
    results = hosts_of_results(host_lines(log.text), [result.first for result in reading.results])
    named = hosts_in_name(name) or ()
    full = full_names(host for hosts in results for host in hosts)
    return [tuple(dict.fromkeys(full[host] for host in hosts)) or named for hosts in results]


def _unknown_hosts(files: Sequence[str]) -> SpecError:
    names = ", ".join(Path(file).name for file in files[:NAMED])
    more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
    return SpecError(
        f"Which two hosts these logs are between is not known: {names}{more}.",
        means="Neither their lines nor their names say it in a way that has one meaning.",
        remedy="Say where the hosts are in the names: --pairs-pattern 'bw_{a}_{b}.log', or write "
        "a table: host_a,host_b,GB/s in its first line, and a line per pair.",
    )
