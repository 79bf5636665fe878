"""Values and summaries as columns, for pandas, polars or other libraries with tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from cluster.core.extras import require

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from cluster.analysis.statistics.compare import ComparisonCell
    from cluster.core.model.results.measurements import Measurement, Summary
    from cluster.core.model.results.records import Record

Rows = Literal["values", "summaries"]
Columns = dict[str, list[Any]]
UNKNOWN = (None, None)  # the ends of an interval that is not known
FIELDS = ("p5", "p95", "p99", "converged", "bound", "share")


def value_columns(name: str, record: Record, measurements: Sequence[Measurement]) -> Columns:
    """Return a table of raw values, one per row.

    Columns: run, benchmark, condition, metric, unit, one per parameter, rank, host, iteration,
    value. Rates are in B/s, also if the times of their bytes were recorded.
    """
    points = tuple(
        point for point in _parameters(m.params for m in measurements) if point != "rank"
    )
    names = ("run", "benchmark", "condition", "metric", "unit", *points)
    origin = (name, record.benchmark, record.condition)
    rows = (
        (*origin, m.metric, unit, *map(m.params.get, points), m.rank, m.host, iteration, value)
        for m in measurements
        for unit, values in [_in_unit(m, record)]
        for iteration, value in enumerate(values)
    )
    return _columns((*names, "rank", "host", "iteration", "value"), rows)


def _in_unit(measurement: Measurement, record: Record) -> tuple[str, Iterable[float]]:
    """Return values in the unit of their metric; recorded times of a rate become rates."""
    definition = record.definitions.get(measurement.definition)
    if definition is None or definition.unit == measurement.unit or not measurement.bytes:
        return measurement.unit, measurement.values
    times = measurement.values
    return definition.unit, (measurement.bytes / s if s else float("inf") for s in times)


def summary_columns(name: str, record: Record, summaries: Sequence[Summary]) -> Columns:
    """Return a table of summaries, one per row.

    Columns: run, benchmark, condition, metric, unit, one per parameter, n, median, ci_low, ci_high,
    p5, p95, p99, converged, bound, share. Unknown values are None.
    """
    points = _parameters(s.params for s in summaries)
    names = ("run", "benchmark", "condition", "metric", "unit", *points)
    origin = (name, record.benchmark, record.condition)
    rows = (
        (
            *(*origin, s.metric, s.unit, *map(s.params.get, points)),
            *(s.n, s.median, *(s.ci or UNKNOWN), *(getattr(s, field) for field in FIELDS)),
        )
        for s in summaries
    )
    return _columns((*names, "n", "median", "ci_low", "ci_high", *FIELDS), rows)


def cell_columns(cells: Sequence[ComparisonCell]) -> Columns:
    """Return a table of the data points of a comparison, one per row.

    Columns: metric, one per parameter, unit, base, other, ratio, ratio_low, ratio_high, verdict,
    reason.
    """
    points = _parameters(cell.params for cell in cells)
    rows = (
        (
            *(c.metric, *map(c.params.get, points), c.unit, c.base, c.other, c.ratio),
            *(*(c.interval or UNKNOWN), c.verdict, c.reason),
        )
        for c in cells
    )
    ends = ("ratio_low", "ratio_high", "verdict", "reason")
    return _columns(("metric", *points, "unit", "base", "other", "ratio", *ends), rows)


def _parameters(points: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for point in points for key in point))


def _columns(names: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> Columns:
    columns: Columns = {name: [] for name in names}
    for row in rows:
        for name, cell in zip(names, row, strict=True):
            columns[name].append(cell)
    return columns


def pandas_frame(columns: Columns) -> pd.DataFrame:
    """Make a pandas DataFrame (SpecError: pandas is not installed)."""
    require("pandas", "frames", "A frame of pandas")
    import pandas as pd  # noqa: PLC0415 - it is optional

    return pd.DataFrame(columns)


def polars_frame(columns: Columns) -> pl.DataFrame:
    """Make a polars DataFrame (SpecError: polars is not installed)."""
    require("polars", "frames", "A frame of polars")
    import polars as pl  # noqa: PLC0415 - it is optional

    return pl.DataFrame(columns, strict=False, infer_schema_length=None)
