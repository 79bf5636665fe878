"""List and check the results that others published.

Example: cluster more corpus list
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Annotated

import msgspec
from click.exceptions import Exit

from cluster.analysis.limits import published
from cluster.analysis.limits.hardware import find as find_hardware
from cluster.analysis.limits.published import (
    Point,
    PublishedResult,
    PublishedRun,
    PublishedSource,
    checks,
)
from cluster.cli import flags
from cluster.cli.flags import CommandGroup, argument, make_command, option
from cluster.cli.show import print_json, print_lines, show_rows
from cluster.core.errors import ParseError, SpecError
from cluster.core.model.hosts import SIMULATED as SIMULATED_SHELL
from cluster.core.model.logs import Parsed
from cluster.core.model.value import Value
from cluster.core.text.units import format_size, format_value
from cluster.logs.reader import read
from cluster.reports.table import Column, Columns
from cluster.reports.words.limits import entry_problem_words
from cluster.runs import shared_file, store
from cluster.runs.import_.logs import STDIN, read_log
from cluster.runs.run import RAW

SIMULATED = re.compile(r"\bprovider\W+sim\b|\bsimulated\b", re.IGNORECASE)
AT_COMMIT = re.compile(r"(https://[^/]+/[^/]+/[^/]+)/blob/([0-9a-f]{7,40})/([^#]+)(?:#L(\d+))?")
PRINTED = {"B/s": ("GB/s", 1e9), "s": ("us", 1e-6)}  # how a unit is written into an entry
MOST_POINTS = 6  # of the largest messages, which an entry of a sweep keeps


class CheckAnswer(Value, frozen=True, kw_only=True):
    """What `cluster more corpus check --json` prints."""

    runs: int
    results: int
    read_again: int
    bytes: int
    problems: tuple[str, ...]


def list_(
    hardware: Annotated[
        str, option("--hardware", "Only results of this hardware: p5.48xlarge.")
    ] = "",
    json: flags.Json = False,
) -> None:
    """List the published results.

    Example: cluster more corpus list --hardware p5.48xlarge
    """
    results = [r for r in published.results() if not hardware or r.run.hardware == hardware]
    columns: Columns[PublishedResult] = (
        Column("id", lambda result: result.run.id),
        Column("hardware", lambda result: result.run.hardware, spare=4),
        Column("hosts", lambda result: str(result.run.hosts), spare=3),
        Column("ranks", lambda result: str(result.run.ranks), spare=1),
        Column("test", lambda result: result.run.test, spare=5),
        Column("size", lambda result: format_size(result.size) if result.size else ""),
        Column("value", lambda r: format_value(median(r.values), published.UNITS[r.run.unit][1])),
        Column("grade", lambda result: result.run.grade, spare=2),
    )
    show_rows(results, columns, empty="No published results.", as_json=json)


def show(
    id_: Annotated[str, argument("ID", "Id of a published run or result.")],
    json: flags.Json = False,
) -> None:
    """Show a published run: its values, versions, source and log.

    Example: cluster more corpus show p5-allreduce-aws
    """
    run = next((run for run in published.runs() if run.id == id_.partition("@")[0]), None)
    if run is None:
        raise SpecError(f"There is no published run {id_!r}.", remedy="cluster more corpus list")
    if json:
        print_json(run)
        return
    print_lines(
        f"{run.id}: {run.test} on {run.hosts} x {run.hardware}, {run.ranks} ranks",
        f"  definition: {run.definition}",
    )
    for result in published.points([run]):
        values = ", ".join(format_value(v, published.UNITS[run.unit][1]) for v in result.values)
        print_lines(f"  {format_size(result.size) if result.size else 'all sizes'}: {values}")
    print_lines(f"  grade {run.grade}{f': {run.reason}' if run.reason else ''}")
    if run.settings:
        print_lines(f"  settings: {run.settings}; so it does not count as usual")
    author = f", by {run.source.author}" if run.source.author else ""
    print_lines(
        f"  versions: {run.versions}; date: {run.date}",
        f"  source: {run.source.address()}{author}",
        *(f"  | {line}" for line in run.log.strip().splitlines()),
    )


def add(
    log: Annotated[str, argument("LOG|-", "The log; - is standard input.")],
    source: Annotated[str, option("--source URL", "Where it is published.")],
    hardware: Annotated[str, option("--hardware", "Its name: p5.48xlarge, h100.")] = "",
    hosts: Annotated[int, option("--hosts", "Number of hosts.")] = 0,
    format_: flags.LogFormat = "",
) -> None:
    """Print the entry for a published log, for a file of `cluster/analysis/limits/published`.

    Example: cluster more corpus add all_reduce.log --hardware p5.48xlarge --hosts 2 --source https://...
    """
    _check_origin(source, hardware, hosts)
    results = _results(log, format_)
    for result in results:
        if SIMULATED.search(" ".join((result.title, *map(str, result.settings)))):
            raise _simulation_error(log)
    entries = [entry for r in results for entry in _entries(r, hardware, hosts, source)]
    if not entries:
        measurable = ", ".join(sorted(d.partition("-")[0] for d in published.definitions()))
        kinds = sorted({d.id.partition("-")[0] for r in results for d in r.definitions})
        raise SpecError(
            f"{log} holds nothing that the corpus compares, but {', '.join(kinds) or 'no values'}.",
            means=f"It compares: {measurable}.",
        )
    for entry in entries:
        print_lines(*_toml(entry))
        known_problems = set(checks.problems(published.runs()))
        for problem in checks.problems([*published.runs(), entry]):
            if problem not in known_problems:
                print_lines(f"# to do: {entry_problem_words(problem)}")


def check(json: flags.Json = False) -> None:
    """Check every entry: logs read again, bounds, units, sources, duplicates and thresholds.

    Example: cluster more corpus check
    """
    runs = [run for run in published.runs() if run.grade == "A"]
    problems = [
        *checks.problems(published.runs()),
        *checks.threshold_problems(published.thresholds()),
    ]
    for run in runs:
        results = read([run.log.encode()]).results
        measurements = [m for result in results for m in result.measurements]
        problems += checks.unread(run, measurements)
    answer = CheckAnswer(
        runs=len(published.runs()),
        results=len(published.results()),
        read_again=len(runs),
        bytes=published.size(),
        problems=tuple(map(entry_problem_words, problems)),
    )
    if json:
        print_json(answer)
    else:
        print_lines(
            *answer.problems,
            f"{answer.results} results of {answer.runs} published runs, {answer.read_again} of "
            f"them read again from their logs: {len(problems)} problem(s).",
        )
    raise Exit(1 if problems else 0)


def _check_origin(source: str, hardware: str, hosts: int) -> None:
    if not source.startswith("https://"):
        raise SpecError(
            f"--source {source!r} is no address that begins with https://.",
            means="A reader must be able to open where a result was published.",
            remedy="Best is a line at a commit: --source https://HOST/OWNER/REPO/blob/COMMIT/FILE#L1",
        )
    if hosts < 0:
        raise SpecError(f"--hosts is {hosts}; it must be 1 or more, or be left out.")
    if hardware:
        find_hardware(hardware)


def _results(log: str, format_: str) -> tuple[Parsed, ...]:
    """Read a log, or all logs that a shared run holds."""
    path = Path(log)
    if log == STDIN or not shared_file.is_shared(path):
        return read_log(log, format_=format_).results
    folder = shared_file.unpack(path)
    if any(machine.shell == SIMULATED_SHELL for machine in store.record(folder).machines):
        raise _simulation_error(log)
    results: list[Parsed] = []
    for file in sorted((folder / RAW).rglob("*")):
        with suppress(ParseError):  # not all files of a run are logs
            results += read_log(str(file), format_=format_).results if file.is_file() else ()
    if not results:
        raise SpecError(
            f"{log} was shared without its logs, from which the corpus is read.",
            remedy="Get it with them: cluster more share RUN --with-logs -o FILE",
        )
    return tuple(results)


def _simulation_error(log: str) -> SpecError:
    return SpecError(
        f"{log} is of a simulated run.",
        means="The corpus holds what was measured, and nothing that was simulated.",
    )


def _entries(result: Parsed, hardware: str, hosts: int, source: str) -> Iterator[PublishedRun]:
    match = AT_COMMIT.fullmatch(source)
    origin = PublishedSource(url=source)
    if match:
        origin = PublishedSource(
            url=match[1], commit=match[2], path=match[3], line=int(match[4] or 0)
        )
    for definition in result.definitions:
        if definition.id not in published.definitions():
            continue
        unit, scale = PRINTED[definition.unit]
        by_size: dict[int, list[float]] = {}
        for m in result.measurements:
            size = m.params.get("size", 0)
            if m.definition == definition.id and isinstance(size, int):
                by_size.setdefault(size, []).extend(value / scale for value in m.values)
        largest = sorted(by_size)[-MOST_POINTS:]
        yield PublishedRun(
            id=f"{hardware or 'HARDWARE'}-{result.operation or definition.metric}-AUTHOR",
            hardware=hardware or "HARDWARE",
            hosts=result.hosts or hosts,
            ranks=result.ranks or result.hosts or hosts,
            test=result.operation or definition.benchmark,
            definition=definition.id,
            unit=unit,
            grade="A",
            source=origin,
            points=tuple(
                Point(
                    size=format_size(size) if size else "",
                    values=tuple(float(f"{value:.9g}") for value in by_size[size]),
                )
                for size in largest
            ),
        )


def _toml(entry: PublishedRun) -> Iterator[str]:
    fields = msgspec.to_builtins(entry)
    yield "[[run]]"
    for key, value in fields.items():
        if key not in ("source", "points", "log") and value not in ("", 0):
            yield f"{key} = {msgspec.json.encode(value).decode()}"
    yield f"source = {{ {_inline(fields['source'])} }}"
    yield "points = ["
    yield from (f"  {{ {_inline(point)} }}," for point in fields["points"])
    yield "]"
    yield "# log = the lines of the log that hold these values, between triple quotes"


def _inline(fields: dict[str, object]) -> str:
    pairs: Iterable[tuple[str, object]] = fields.items()
    return ", ".join(f"{k} = {msgspec.json.encode(v).decode()}" for k, v in pairs if v)


command = CommandGroup(
    "corpus",
    [make_command(f.__name__.rstrip("_"), f) for f in (list_, show, add, check)],
    help=__doc__,
    no_args_is_help=True,
)
