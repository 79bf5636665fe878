"""The views that SQL over runs offers: their columns, with types and meanings.

`docs/reference/sql.md` has the same texts. Columns are stable: they are never renamed.
"""

from __future__ import annotations

from typing import NamedTuple, get_args

import msgspec

from cluster.core.model.spec import SpecOptions
from cluster.core.options import help_of

TYPES = {str: "VARCHAR", int: "BIGINT", bool: "BOOLEAN", float: "DOUBLE"}  # of Python, and of SQL


class SqlColumn(NamedTuple):
    """A column of a view."""

    name: str
    type: str
    text: str


class SqlView(NamedTuple):
    """A view."""

    name: str
    text: str
    columns: tuple[SqlColumn, ...]


def _phrase(sentence: str) -> str:
    """Turn the help of an option into the text of a column; `MPI` stays as it is."""
    begins = sentence[0] if sentence[1].isupper() else sentence[0].lower()
    return begins + sentence[1:].rstrip(".")


def _spec_columns() -> tuple[SqlColumn, ...]:
    """Return a column per option of a cluster; those of its provider are in the column `record`."""
    kinds = {field.name: field.type for field in msgspec.structs.fields(SpecOptions)}
    texts = help_of(SpecOptions)
    return tuple(
        SqlColumn(name, TYPES[next(iter(get_args(kind)), kind)], _phrase(texts[name]))
        for name, kind in kinds.items()
        if name != "options"
    )


SPEC = _spec_columns()
RUNS = SqlView(
    "runs",
    "A row per run whose `run.json` can be read.",
    (
        SqlColumn(
            "run",
            "VARCHAR",
            "cluster and id, as `cluster show` takes it; the key of the other views",
        ),
        SqlColumn("name", "VARCHAR", "of the cluster"),
        SqlColumn("benchmark", "VARCHAR", "that was run, or the formats that were imported"),
        SqlColumn("status", "VARCHAR", "`done`, `failed`, `interrupted`, `running` or `planned`"),
        SqlColumn("reason", "VARCHAR", "why it is not done"),
        SqlColumn("started", "TIMESTAMP", "when, in UTC"),
        *SPEC,
        SqlColumn("condition", "VARCHAR", "of an experiment with several"),
        SqlColumn("description", "VARCHAR", "what `--describe` said"),
        SqlColumn("expected", "DOUBLE", "what `--expect` said"),
        SqlColumn("expected_unit", "VARCHAR", "of that; empty if it had none"),
        SqlColumn("dollars", "DOUBLE", "what the machines cost, where that is known"),
        SqlColumn("software", "VARCHAR", "version of `cluster`"),
        SqlColumn("folder", "VARCHAR", "of the run"),
        SqlColumn("record", "JSON", "all of `run.json`"),
    ),
)
MEASUREMENTS = SqlView(
    "measurements",
    "A row per series of raw values, read from the files when a query names this view.",
    (
        SqlColumn("run", "VARCHAR", "whose series it is"),
        SqlColumn("metric", "VARCHAR", "that was measured"),
        SqlColumn("definition", "VARCHAR", "the id of its definition"),
        SqlColumn("unit", "VARCHAR", "of the values: times of a bandwidth are in `s`"),
        SqlColumn("params", "JSON", "the point"),
        SqlColumn("size", "BIGINT", "of it, in bytes"),
        SqlColumn("rank", "BIGINT", "that took the values"),
        SqlColumn("host", "VARCHAR", "it ran on"),
        SqlColumn("bytes", "BIGINT", "that moved during each value"),
        SqlColumn("complete", "BOOLEAN", "all values were taken"),
        SqlColumn("values", "DOUBLE[]", "all raw values, in order"),
    ),
)
SUMMARIES = SqlView(
    "summaries",
    "A row per metric and point, as `cluster show` prints them; computed when a query names this "
    "view.",
    (
        SqlColumn("run", "VARCHAR", "whose it is"),
        SqlColumn("metric", "VARCHAR", "that was measured"),
        SqlColumn("definition", "VARCHAR", "the id of its definition"),
        SqlColumn("unit", "VARCHAR", "of the numbers: `s` or `B/s`, or what a foreign tool counts"),
        SqlColumn("better", "VARCHAR", "`lower` or `higher`"),
        SqlColumn(
            "params",
            "JSON",
            "the point; `rank` is among them where each rank has a series of its own",
        ),
        SqlColumn("size", "BIGINT", "of it, in bytes"),
        SqlColumn("n", "BIGINT", "how many values"),
        SqlColumn("median", "DOUBLE", "of them"),
        SqlColumn(
            "ci_low",
            "DOUBLE",
            "the lower end of its 95% confidence interval; none for fewer than 6 values",
        ),
        SqlColumn("ci_high", "DOUBLE", "the upper end"),
        SqlColumn("p5", "DOUBLE", "the 5th percentile"),
        SqlColumn("p95", "DOUBLE", "the 95th"),
        SqlColumn("p99", "DOUBLE", "the 99th"),
        SqlColumn(
            "converged",
            "BOOLEAN",
            "half of the interval is at most 2.5% of the median, with 20 values or more that do "
            "not drift",
        ),
        SqlColumn("complete", "BOOLEAN", "all values were taken"),
        SqlColumn("bound", "DOUBLE", "the best that is possible, where that is known"),
        SqlColumn("share", "DOUBLE", "of the bound that the median reaches"),
        SqlColumn("bound_by", "VARCHAR", "what sets the bound, and who says so"),
    ),
)
VIEWS = (RUNS, MEASUREMENTS, SUMMARIES)
