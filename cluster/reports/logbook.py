"""The record of experiments: what, where, expected and results, as founding document 002 has."""

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from cluster.analysis.statistics.factors import MCA
from cluster.core.model.hosts import Facts
from cluster.core.model.results.measurements import Planned, Summary
from cluster.core.model.results.records import ExpectedResult, Record
from cluster.core.model.spec import SpecOptions
from cluster.core.model.value import Value
from cluster.core.text.units import format_point, format_value
from cluster.reports.table import Column, Columns, Table, make_table
from cluster.reports.words.notes import note_words

GIB = 2**30
MOST_NAMED = 2  # metrics without any value that have a sentence of their own


class Entry(Value, frozen=True, kw_only=True):
    """A run, as the record of experiments shows it."""

    place: str
    record: Record
    summaries: tuple[Summary, ...]
    gaps: tuple[str, ...] = ()


def logbook(entries: Sequence[Entry]) -> Table:
    return make_table(f"{len(entries)} experiment(s)", entries, COLUMNS)


def _storage(entry: Entry) -> str:
    kinds = dict.fromkeys(facts.tuning.storage for facts in entry.record.environment)
    servers = ", ".join(filter(None, kinds)) or "not known"
    return f"servers: {servers}; the run: {entry.place}"


def _workload(record: Record) -> str:
    params = msgspec.json.decode(record.params)
    set_params = {key: value for key, value in params.items() if value not in (None, False)}
    variables = {
        f"mca:{name.removeprefix(MCA)}" if name.startswith(MCA) else f"env:{name}": value
        for name, value in record.variables.items()
    }
    texts = {
        key: "/".join(map(str, value)) if isinstance(value, list) else value
        for key, value in (set_params | variables).items()
    }
    return ", ".join([record.benchmark, *(f"{key} {value}" for key, value in texts.items())])


def _cluster(record: Record) -> str:
    options = {name: getattr(record.spec, name) for name in SpecOptions.__struct_fields__}
    words = [
        name if value is True else value
        for name, value in options.items()
        if value is True or (value and isinstance(value, str))
    ]
    suffix = " simulated" if record.simulated else ""
    return f"{record.spec.name} ({', '.join(words)}{suffix})"


def _servers(record: Record) -> str:
    addresses = ", ".join(dict.fromkeys(machine.address for machine in record.machines))
    return f"{record.spec.hosts}: {addresses}" if addresses else "not known"


def _nodes(environment: Iterable[Facts]) -> str:
    kinds = Counter(
        f"{f.cpu}, {f.cores} cores, {f.memory / GIB:.0f} GiB, {f.system}, {f.kernel}"
        for f in environment
    )
    return "; ".join(f"{count} x {kind}" for kind, count in kinds.items()) or "not known"


def format_expected(expected: ExpectedResult | None) -> str:
    """Format an expected result, such as `220 images/s`; none is empty."""
    if expected is None:
        return ""
    if expected.unit in ("s", "B/s"):
        return format_value(expected.value, expected.unit)
    return f"{expected.value:g} {expected.unit}".strip()


def best_per_metric(summaries: Iterable[Summary]) -> tuple[Summary, ...]:
    """Find the best point of each metric: the highest rate, or the shortest time."""
    series: dict[str, list[Summary]] = {}
    for summary in summaries:
        if summary.median < math.inf:
            series.setdefault(summary.metric, []).append(summary)
    return tuple(
        (max if group[0].better == "higher" else min)(group, key=lambda summary: summary.median)
        for group in series.values()
    )


def format_result(summary: Summary) -> str:
    """Format the result at one data point, such as `latency 8 B: 1.2 us`."""
    point = ", ".join(filter(None, [summary.metric, format_point(summary.params)]))
    return f"{point}: {format_value(summary.median, summary.unit)}"


def share_of_expected(
    summaries: Iterable[Summary], expected: ExpectedResult
) -> tuple[Summary, float] | None:
    """Compare the results of a run with the expected one.

    Return the best data point of the first metric in the expected unit, and its share of the
    expected value (more than 1 is better); None if no metric has that unit.
    """
    for best in best_per_metric(summaries):
        if expected.unit in ("", best.unit) and best.median > 0:
            part = best.median / expected.value
            return best, part if best.better == "higher" else 1 / part
    return None


def missing_series(record: Record, missing: Iterable[Planned]) -> Iterator[str]:
    """Say which planned series have no value, and why.

    A sentence per metric, and one for all of which no value was measured; none while the run may
    still measure them.
    """
    if record.status in ("planned", "running"):
        return
    points: dict[str, list[str]] = {}
    for cell in missing:
        points.setdefault(cell.metric, []).append(format_point(cell.params))
    reason = record.reason or "no reason is recorded"
    counts = Counter(cell.metric for cell in record.planned)
    whole = [metric for metric, lacking in points.items() if len(lacking) == counts[metric]]
    if len(whole) > MOST_NAMED:
        yield f"{', '.join(whole[:-1])} and {whole[-1]} were not measured: {reason}"
        points = {metric: lacking for metric, lacking in points.items() if metric not in whole}
    for metric, lacking in points.items():
        total = counts[metric]
        at_points = f" at {', '.join(lacking)} ({len(lacking)} of {total})" if any(lacking) else ""
        yield f"{metric} was not measured{at_points}: {reason}"


def _results(entry: Entry) -> Iterator[str]:
    record = entry.record
    if record.status != "done":
        yield f"{record.status}: {record.reason}" if record.reason else record.status
    yield from (line.rstrip(".") for line in expectation_lines(entry.summaries, record.expected))
    best = [s for s in best_per_metric(entry.summaries) if s.share is not None]
    yield from (f"{s.metric} reaches {s.share:.1%} of its limit" for s in best)
    yield from (note.rstrip(".") for note in (*map(note_words, record.notes), *entry.gaps))


def expectation_lines(
    summaries: Sequence[Summary], expected: ExpectedResult | None
) -> Iterator[str]:
    if expected is None:
        return
    result = share_of_expected(summaries, expected)
    if result is None:
        yield f"Expected {format_expected(expected)}, and nothing was measured in that unit."
        return
    best, part = result
    yield f"Expected {format_expected(expected)}: {format_result(best)} is {part:.1%} of that."


COLUMNS: Columns[Entry] = (
    Column(
        "Description", lambda e: e.record.description or e.record.condition or e.record.id, True
    ),
    Column("Time (GMT)", lambda e: time.strftime("%F %T", time.gmtime(e.record.at)), words=True),
    Column("Storage", _storage, words=True),
    Column("Workload", lambda entry: _workload(entry.record), words=True),
    Column("Cluster", lambda entry: _cluster(entry.record), words=True),
    Column("Servers", lambda entry: _servers(entry.record), words=True),
    Column("Server nodes", lambda entry: _nodes(entry.record.environment), words=True),
    Column("Expected", lambda entry: format_expected(entry.record.expected), words=True),
    Column("Results", lambda e: "; ".join(map(format_result, best_per_metric(e.summaries))), True),
    Column("Summary", lambda entry: "; ".join(_results(entry)), words=True),
)
