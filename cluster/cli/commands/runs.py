"""List the runs, the oldest first.

Example: cluster runs --json
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from cluster.cli import flags
from cluster.cli.flags import option
from cluster.cli.show import print_json, relative_path, table
from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.records import ExpectedResult
from cluster.core.model.value import Value
from cluster.reports.formats.markdown import table_markdown
from cluster.reports.logbook import Entry, logbook, missing_series
from cluster.runs import object_store, store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    T = TypeVar("T")

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
            sys.stdout.write(table_markdown(logbook(list(_each(_entry, places)))))
            return
        rows = list(_each(_row, places))
    if json:
        print_json(rows)
        return
    table(
        ("run", "provider", "placement", "status", "why"),
        [
            (
                f"{r.name}/{Path(r.run).name}",
                f"{r.provider} (simulated)" if r.simulated else r.provider,
                str(int(r.placement)),
                r.status,
                r.reason,
            )
            for r in rows
        ],
        empty=f"There are no runs in {from_ or store.root(root)}.",
        spare=(("placement",), ("provider",)),
    )


@contextmanager
def _places(url: str | None, root: str | None, *, values: bool) -> Iterator[list[Place]]:
    """Return each run's folder and where it is kept; runs of a store are downloaded temporarily."""
    if url is None:
        where = store.root(root)
        if root is not None and not where.is_dir():
            raise SpecError(
                f"The folder {where} does not exist, so there are no runs in it.",
                remedy="Name another --runs, or leave it out.",
            )
        yield [(folder, str(folder)) for folder in store.folders(where)]
        return
    with TemporaryDirectory(prefix="cluster-") as place:
        addresses = object_store.download_runs(url, Path(place), values=values)
        yield list(zip(store.folders(Path(place)), addresses, strict=True))


def _each(make: Callable[[Place], T], places: Iterable[Place]) -> Iterator[T]:
    """Call `make` for each run; one that cannot be read is reported and left out."""
    for place in places:
        try:
            yield make(place)
        except ClusterError as error:
            sys.stderr.write(f"Left out: {error}\n")


def _row(place: Place) -> RunRow:
    folder, address = place
    record = store.record(folder)
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
    )


def _entry(place: Place) -> Entry:
    folder, address = place
    run = store.read(folder)
    where = str(relative_path(folder)) if address == str(folder) else address
    lacking = tuple(missing_series(run.record, run.missing))
    return Entry(place=where, record=run.record, summaries=run.summary(), gaps=lacking)
