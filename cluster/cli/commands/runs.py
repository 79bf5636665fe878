"""List the runs, the oldest first.

Example: cluster runs --json
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, TypeVar

from cluster.cli import flags
from cluster.cli.flags import option
from cluster.cli.show import print_json, print_lines, relative_path, show_rows
from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.results.records import ExpectedResult
from cluster.core.model.value import Value
from cluster.core.text.units import format_value
from cluster.reports.formats.markdown import table_markdown
from cluster.reports.logbook import Entry, logbook, missing_series
from cluster.reports.table import Column, Columns
from cluster.reports.words.verdict import is_unlimited
from cluster.runs import object_store, store
from cluster.runs.import_.logs import NAME as IMPORTED
from cluster.runs.run import RAW, judge_launches

T = TypeVar("T")
MOST_JUDGED = 20  # of the runs listed: to judge one takes some 50 ms
Place = tuple[Path, str]  # a run's folder here, and where it is kept


class RunRow(Value, frozen=True, kw_only=True):
    """One line of `cluster runs`."""

    run: str
    name: str
    benchmark: str
    provider: str
    placement: bool
    status: str
    at: float
    reason: str
    condition: str = ""
    description: str = ""
    expected: ExpectedResult | None = None
    simulated: bool = False
    logs: tuple[str, ...] = ()  # the names of the files that were imported


def command(
    from_: Annotated[
        str | None, option("--from URL", "List an object store: s3://bucket/prefix.")
    ] = None,
    markdown: Annotated[bool, option("--markdown", "Print a Markdown table with results.")] = False,
    root: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    with _places(from_, root, values=markdown) as places:
        if markdown:
            sys.stdout.write(table_markdown(logbook(list(_entries(_entry, places)))))
            return
        rows = list(_entries(_row, places))
    if json:
        print_json(rows)
        return
    older = max(0, len(rows) - (MOST_JUDGED if from_ is None else 0))
    verdicts = {row.run: _judge(Path(row.run)) for row in rows[older:]}
    columns: Columns[RunRow] = (
        # An object store has a run behind its cluster.
        Column("run", lambda row: ("" if from_ is None else f"{row.name}/") + Path(row.run).name),
        Column("age", lambda row: _age(row.at)),
        Column("figure", lambda row: verdicts.get(row.run, ("", ""))[0]),
        Column("verdict", lambda row: verdicts.get(row.run, ("", ""))[1]),
        Column("of", _subject, folds=True),
        Column("why", lambda row: row.reason, spare=1),
    )
    show_rows(rows, columns, empty=f"There are no runs in {from_ or store.root(root)}.")
    if older and from_ is None:
        print_lines(f"Judged are the newest {MOST_JUDGED}; any other: cluster judge RUN")


def _age(timestamp: float) -> str:
    seconds = max(0, int(time.time() - timestamp))
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _subject(row: RunRow) -> str:
    """Return what a run is of: the logs that were imported, or a benchmark and where it ran."""
    if row.logs:
        return row.logs[0] + (f" and {len(row.logs) - 1} more" if row.logs[1:] else "")
    suffix = ", simulated" if row.simulated else ""
    names = dict.fromkeys((row.name, row.benchmark))
    return f"{': '.join(names)}, {row.provider}{suffix}"


def _judge(folder: Path) -> tuple[str, str]:
    """Return the figure that decides the verdict on a run, and the verdict; of a check, its own."""
    if fleet := store.verdict(folder):
        return "", fleet.verdict
    judgement = judge_launches([store.read(folder)]).judgement
    figure = judgement.figures[-1] if judgement.figures else None
    words = f"{figure.metric} {format_value(figure.median, figure.unit)}" if figure else ""
    return words, "no limit" if is_unlimited(judgement) else judgement.word.upper()


@contextmanager
def _places(url: str | None, root: str | None, *, values: bool) -> Iterator[list[Place]]:
    """Return each run's folder and where it is kept; runs of a store are downloaded temporarily."""
    if url is None:
        runs_root = store.root(root)
        if root is not None and not runs_root.is_dir():
            raise SpecError(
                f"The folder {runs_root} does not exist, so there are no runs in it.",
                remedy="Name another --runs, or leave it out.",
            )
        yield [(folder, str(folder)) for folder in store.folders(runs_root)]
        return
    with TemporaryDirectory(prefix="cluster-") as place:
        addresses = object_store.download_runs(url, Path(place), values=values)
        yield list(zip(store.folders(Path(place)), addresses, strict=True))


def _entries(make: Callable[[Place], T], places: Iterable[Place]) -> Iterator[T]:
    """Call `make` for each run; one that cannot be read is reported and left out."""
    for place in places:
        try:
            yield make(place)
        except ClusterError as error:
            sys.stderr.write(f"Left out: {error}\n")


def _row(place: Place) -> RunRow:
    folder, address = place
    record = store.record(folder)
    is_imported = record.spec.provider == IMPORTED
    return RunRow(
        run=address,
        name=record.spec.name,
        benchmark=record.benchmark,
        provider=record.spec.provider,
        placement=record.spec.placement,
        status=record.status,
        at=record.at,
        reason=record.reason,
        condition=record.condition,
        description=record.description,
        expected=record.expected,
        simulated=record.simulated,
        logs=tuple(sorted(path.name for path in (folder / RAW).glob("*"))) if is_imported else (),
    )


def _entry(place: Place) -> Entry:
    folder, address = place
    run = store.read(folder)
    name = str(relative_path(folder)) if address == str(folder) else address
    gaps = tuple(missing_series(run.record, run.missing))
    return Entry(place=name, record=run.record, summaries=run.summary(), gaps=gaps)
