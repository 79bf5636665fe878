"""Text in columns, for any report, and summaries as such a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

from cluster.core.model.value import Value
from cluster.core.units import format_point, format_value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster.core.model.measurements import Summary


class Table(Value, frozen=True, kw_only=True):
    """A table of text, for any report."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    left_aligned: tuple[str, ...] = ()
    spare: tuple[tuple[str, ...], ...] = ()


class Column(NamedTuple):
    """A column of the tables for people."""

    name: str
    cell: Callable[[Summary], str]  # the text for a summary; every value with its unit
    words: bool = False
    # the tables that have it: `wide` ones, those for a `narrow` screen, or both
    screens: Literal["both", "wide", "narrow"] = "both"
    # the order in which columns are left out of a table that is still too wide, lowest first; 0 is
    # never left out
    dropped: int = 0
    # if given, the column is left out unless this is true for a summary of the table
    condition: Callable[[Summary], bool] | None = None


def _value(summary: Summary, value: float) -> str:
    return format_value(value, summary.unit)


def _interval(summary: Summary) -> str:
    if summary.ci is None:
        return "none (n < 6)"
    return " .. ".join(_value(summary, end) for end in summary.ci)


def _with_error(summary: Summary) -> str:
    """Return the median, and half of its confidence interval in percent of it."""
    median = _value(summary, summary.median)
    if summary.ci is None or not 0 < summary.median < math.inf:
        return median
    half = (summary.ci[1] - summary.ci[0]) / 2 / summary.median
    return f"{median} ±{half:.1%}" if half < math.inf else median


def _is_repeated(summary: Summary) -> bool:
    return summary.n > 1


def _is_bounded(summary: Summary) -> bool:
    return summary.bound is not None


COLUMNS = (
    Column("metric", lambda s: s.metric, words=True),
    Column("parameters", lambda s: format_point(s.params), words=True),
    Column("n", lambda s: f"{s.n}" if s.complete else f"{s.n} (stopped)", dropped=3),
    Column("median", lambda s: _value(s, s.median), screens="wide"),
    Column("median ± half-CI", _with_error, screens="narrow"),
    Column("95% CI, this launch", _interval, screens="wide", condition=_is_repeated),
    Column("p5", lambda s: _value(s, s.p5), screens="wide", condition=_is_repeated),
    Column("p95", lambda s: _value(s, s.p95), screens="wide", condition=_is_repeated),
    Column("p99", lambda s: _value(s, s.p99), dropped=2, condition=_is_repeated),
    Column(
        "converged",
        lambda s: "yes" if s.converged else "not converged",
        words=True,
        screens="wide",
        condition=_is_repeated,
    ),
    Column(
        "limit",
        lambda s: "none" if s.bound is None else _value(s, s.bound),
        screens="wide",
        condition=_is_bounded,
    ),
    Column(
        "of limit",
        lambda s: "none" if s.share is None else f"{s.share:.1%}",
        dropped=4,
        condition=_is_bounded,
    ),
    Column(
        "remarks",
        lambda s: ", ".join(remarks(s)),
        words=True,
        dropped=1,
        condition=lambda s: bool(remarks(s)),
    ),
)
"""A new column is one more entry: the terminal, Markdown, HTML and the report show it."""


def summaries_table(
    summaries: Sequence[Summary],
    *,
    title: str = "",
    notes: Sequence[str] = (),
    screen: Literal["wide", "narrow"] = "wide",
) -> Table:
    """Return a row per summary, with the columns that are not empty for all of them."""
    chosen = [
        column
        for column in COLUMNS
        if column.screens in ("both", screen)
        and (
            column.condition is None
            or any(map(column.condition, summaries))
            or (column.condition is _is_repeated and not summaries)
        )
    ]
    droppable = sorted((c for c in chosen if c.dropped), key=lambda column: column.dropped)
    return Table(
        title=title,
        columns=tuple(column.name for column in chosen),
        rows=tuple(tuple(column.cell(summary) for column in chosen) for summary in summaries),
        notes=tuple(notes),
        left_aligned=tuple(column.name for column in chosen if column.words),
        spare=tuple((column.name,) for column in droppable),
    )


HEAVY = 1.5  # from this ratio of p99 to the median, a tail is worth a remark


def remarks(summary: Summary) -> tuple[str, ...]:
    """Say in a few words what a reader of a median must know, such as `drifts +4.1%`."""
    form = summary.shape
    if form is None:
        return ()
    texts = []
    if form.drifts and form.drift is not None:
        texts.append(f"drifts {form.drift:+.1%}")
    if form.modes:
        texts.append("modes " + ", ".join(format_value(m, summary.unit) for m in form.modes))
    if form.tail > HEAVY:
        texts.append(f"tail {form.tail:.1f} x")
    if form.outliers:
        texts.append(f"outliers {form.outliers}")
    return tuple(texts)
