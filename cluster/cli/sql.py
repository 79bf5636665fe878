"""`cluster sql`: any question to all runs."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Annotated

import msgspec
import typer

from cluster.cli import flags
from cluster.cli.show import print_json, table
from cluster.core.errors import SpecError
from cluster.runs import store
from cluster.runs.sql import QueryResult, query


def sql(
    text: Annotated[
        str, typer.Argument(metavar="QUERY", help="Over runs, measurements and summaries.")
    ],
    root: flags.Runs = None,
    json: flags.Json = False,
    external_access: Annotated[
        bool,
        typer.Option(
            "--external-access",
            help="The query may also read and write files and attach databases, as you may.",
        ),
    ] = False,
) -> None:
    """Query all runs with SQL; views: docs/reference/sql.md.

    Example: cluster sql "select run, size, median from summaries where metric = 'latency'"
    """
    where = store.root(root)
    if root is not None and not where.is_dir():
        raise SpecError(f"The folder {where} does not exist, so there are no runs in it.")
    found = query(text, where, external_access=external_access)
    for line in found.left_out:
        sys.stderr.write(f"Left out: {line}\n")
    if found.left_out:
        sys.stderr.write(f"{len(found.left_out)} damage(s); all else was read.\n")
    if json:
        print_json(_objects(found))
    else:
        rows = [[_text(value) for value in row] for row in found.rows]
        table(found.columns, rows, empty="Nothing was found.")


def _objects(found: QueryResult) -> list[dict[str, object]]:
    kinds = dict(zip(found.columns, found.types, strict=True))
    return [
        {name: _value(value, kinds[name]) for name, value in zip(found.columns, row, strict=True)}
        for row in found.rows
    ]


def _value(value: object, kind: str) -> object:
    """Convert a cell for JSON: a decimal to a number; a JSON column is not quoted again."""
    if isinstance(value, Decimal):
        return float(value)
    if kind == "JSON" and isinstance(value, str):
        return msgspec.Raw(value.encode())
    return value


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
