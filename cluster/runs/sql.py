"""SQL over all runs, by DuckDB, which has three views of them while a query runs.

`runs` has the records, and `measurements` the raw values. `summaries` has our own statistics of
them, computed only for a query that names this view. Before the query runs, the database loses
access to files, other databases, extensions and the network: a query from a colleague's message or
from a web page can read the runs, and nothing else.
"""

from __future__ import annotations

import glob
import json
import math
import re
from typing import TYPE_CHECKING, Any

import msgspec

from cluster.core.errors import ClusterError, SpecError
from cluster.core.extras import require
from cluster.core.model.value import Value
from cluster.runs import sql_views, store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import duckdb

    from cluster.core.model.measurements import Summary
    from cluster.core.model.records import Record
    from cluster.runs.run import Run

VIEWS = {
    view.name: {column.name: column.type for column in view.columns} for view in sql_views.VIEWS
}
MEASUREMENTS, SUMMARIES = VIEWS["measurements"], VIEWS["summaries"]
IN_FILES = {k: v for k, v in MEASUREMENTS.items() if k not in ("run", "size")}
OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # else a query could read this program's variables
}
# The order matters: a locked configuration cannot be changed any more.
CLOSED = ("SET enable_external_access = false", "SET lock_configuration = true")


class QueryResult(Value, frozen=True, kw_only=True):
    """The result of a query.

    Args:
        left_out: one sentence for each part of a run folder that could not be read.

    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    left_out: tuple[str, ...] = ()


def query(sql: str, where: Path, *, external_access: bool = False) -> QueryResult:
    """Query all runs.

    Args:
        sql: of DuckDB, over the views `runs`, `measurements` and `summaries`.
        external_access: the query may also read and write files, attach databases, load extensions
            and change DuckDB's settings, with the rights of this process's user.

    Returns:
        The result; damaged or foreign run folders are read as far as possible.

    Raises:
        SpecError: the query is wrong, asks for more than the runs, or DuckDB is not installed.

    """
    con = _connection()
    folders = store.folders(where)
    left_out = [*_offer_runs(con, folders)]
    used = {view for view in VIEWS if re.search(rf"\b{view}\b", sql, re.IGNORECASE)}
    left_out += _offer_measurements(con, folders if "measurements" in used else ())
    left_out += _offer_summaries(con, folders if "summaries" in used else ())
    for setting in () if external_access else CLOSED:
        con.execute(setting)
    columns, types, rows = _answer(con, sql)
    return QueryResult(
        columns=columns, types=types, rows=rows, left_out=tuple(dict.fromkeys(left_out))
    )


def _connection() -> duckdb.DuckDBPyConnection:
    require("duckdb", "sql", "SQL over runs")
    import duckdb  # noqa: PLC0415 - optional, and slow to import

    return duckdb.connect(config=OFFLINE)


def _answer(
    con: duckdb.DuckDBPyConnection, sql: str
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[object, ...], ...]]:
    import duckdb  # noqa: PLC0415

    try:
        done = con.execute(sql)
        described = done.description or []
        rows = tuple(done.fetchall())
    except duckdb.PermissionException as error:
        raise SpecError(
            f"The query may read the runs and nothing else: {error}",
            means="It was stopped before it reached a file, another database or an extension.",
            remedy="If you trust the query, repeat it with --external-access.",
        ) from error
    except (duckdb.Error, RuntimeError) as error:
        views = "; ".join(f"{name} ({', '.join(columns)})" for name, columns in VIEWS.items())
        raise SpecError(
            f"The query failed: {error}",
            means=f"There are: {views}.",
            remedy='Such as: cluster sql "select run, metric, size, median from summaries"',
        ) from error
    names, types, *_ = zip(*described, strict=False) if described else ((), ())
    return tuple(names), tuple(str(kind) for kind in types), rows


def _offer_runs(con: duckdb.DuckDBPyConnection, folders: Iterable[Path]) -> Iterator[str]:
    rows = []
    for folder in folders:
        try:
            rows.append(_run_row(folder, store.record(folder)))
        except ClusterError as error:
            yield error.what
    _offer(con, "runs", rows)


def _run_row(folder: Path, record: Record) -> dict[str, object]:
    spec = record.spec
    return {
        "run": _name(folder),
        "name": spec.name,
        "benchmark": record.benchmark,
        "status": record.status,
        "reason": record.reason,
        "started": record.at,
        **{column.name: getattr(spec, column.name) for column in sql_views.SPEC},
        "condition": record.condition,
        "description": record.description,
        "expected": record.expected.value if record.expected else None,
        "expected_unit": record.expected.unit if record.expected else None,
        "dollars": record.receipt.dollars if record.receipt else None,
        "software": record.software,
        "folder": str(folder),
        "record": (folder / store.RECORD).read_text(),
    }


def _offer_measurements(con: duckdb.DuckDBPyConnection, folders: Iterable[Path]) -> Iterator[str]:
    """Load all files into the database now, as it cannot read files later.

    A line that is no measurement becomes a row of NULLs, which is then left out.
    """
    files = [folder / store.MEASUREMENTS for folder in folders]
    files = [file for file in files if file.is_file()]
    names = [glob.escape(str(file)) for file in files]
    if not names:
        _offer(con, "measurements", [])
        return
    lines = con.read_json(
        names,  # type: ignore[arg-type] # a list works, too
        columns=IN_FILES,
        format="newline_delimited",
        ignore_errors=True,
        filename=True,
    )
    own = {
        "run": r"regexp_extract(filename, '([^/]+/[^/]+)/[^/]+$', 1)",
        "size": "try_cast(params ->> '$.size' AS BIGINT)",
    }
    chosen = ", ".join(f'{own.get(name, _quoted(name))} AS "{name}"' for name in MEASUREMENTS)
    lines.filter("metric IS NOT NULL").project(chosen).create("measurements")
    for file in files:
        lost = sum(not _is_measurement(line) for line in file.read_bytes().splitlines())
        if lost:
            yield f"{lost} line(s) of {file} are no measurements."


class MeasurementRow(msgspec.Struct):
    """The field that every line of measurements has, in any version."""

    metric: str


_lines = msgspec.json.Decoder(MeasurementRow)  # ten times as fast as a second query


def _is_measurement(line: bytes) -> bool:
    try:
        _lines.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _offer_summaries(con: duckdb.DuckDBPyConnection, folders: Iterable[Path]) -> Iterator[str]:
    rows = []
    for folder in folders:
        try:
            run = store.read(folder)
            rows += [_summary_row(run, summary) for summary in run.summary()]
        except ClusterError as error:
            yield error.what
    _offer(con, "summaries", rows)


def _summary_row(run: Run, summary: Summary) -> dict[str, object]:
    own = {name: getattr(summary, name, None) for name in SUMMARIES}
    low, high = summary.ci or (None, None)
    size = summary.params.get("size")
    return {
        **own,
        "run": _name(run.folder),
        "params": json.dumps(summary.params),
        "size": size if isinstance(size, int) else None,
        "bound_by": summary.limit,
        "ci_low": low,
        "ci_high": high,
    }


def _name(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"


def _offer(con: duckdb.DuckDBPyConnection, view: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Make a view of rows in memory."""
    import numpy as np  # noqa: PLC0415 - slow to import

    columns = VIEWS[view]
    if not rows:
        nothing = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in columns.items())
        con.execute(f"CREATE VIEW {view} AS SELECT {nothing} WHERE false")
        return
    held: dict[str, Any] = {
        name: np.array([_plain(row[name]) for row in rows], dtype=object) for name in columns
    }
    con.register(f"held_{view}", held)
    cast = {"started": 'make_timestamp(("started"::DOUBLE * 1e6)::BIGINT)'}
    chosen = ", ".join(
        f'{cast.get(name, f"{_quoted(name)}::{kind}")} AS "{name}"'
        for name, kind in columns.items()
    )
    con.execute(f"CREATE VIEW {view} AS SELECT {chosen} FROM held_{view}")  # noqa: S608 - only our own names


def _quoted(name: str) -> str:
    return f'"{name}"'


def _plain(value: object) -> object:
    """Return NULL for NaN, and any other value as it is."""
    return None if isinstance(value, float) and math.isnan(value) else value
