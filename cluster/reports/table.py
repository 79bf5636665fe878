"""Text in columns, for any report, and summaries as such a table."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from cluster.core.model.results.measurements import Summary
from cluster.core.model.value import Value
from cluster.core.text.units import format_point, format_value

T = TypeVar("T")
HEAVY = 1.5  # from this ratio of p99 to the median, a tail is worth a remark
NO_CI, CONVERGED = "none (n < 6)", ("not converged", "yes")


class Table(Value, frozen=True, kw_only=True):
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    left_aligned: tuple[str, ...] = ()
    foldable: tuple[str, ...] = ()  # columns of names, which may end a line behind `.`, `_` or `/`
    spare: tuple[tuple[str, ...], ...] = ()  # columns left out of a table that is too wide, in turn


class Column(NamedTuple, Generic[T]):
    """A column of a table, whose rows are of items."""

    name: str
    cell: Callable[[T], str]
    words: bool = False  # it is aligned to the left, and may wrap
    folds: bool = False  # so may the names in it, behind `.`, `_` or `/`
    show: bool = True
    spare: int = 0  # when it is left out of a table that is too wide, lowest first; 0: never


Columns = Sequence[Column[T]]


def make_table(
    title: str, items: Iterable[T], columns: Columns[T], notes: Iterable[str] = ()
) -> Table:
    visible = [column for column in columns if column.show]
    turns = sorted({column.spare for column in visible if column.spare})
    return Table(
        title=title,
        columns=tuple(column.name for column in visible),
        rows=tuple(tuple(column.cell(item) for column in visible) for item in items),
        notes=tuple(notes),
        left_aligned=tuple(column.name for column in visible if column.words),
        foldable=tuple(column.name for column in visible if column.folds),
        spare=tuple(tuple(c.name for c in visible if c.spare == turn) for turn in turns),
    )


def summaries_table(
    summaries: Sequence[Summary], *, title: str = "", notes: Sequence[str] = (), wide: bool = True
) -> Table:
    """Return a row per summary, with the columns that are not empty for all of them."""
    has_repeats = not summaries or any(summary.n > 1 for summary in summaries)
    has_limit = any(summary.bound is not None for summary in summaries)
    has_remarks = any(map(remarks, summaries))
    has_details = wide and has_repeats
    columns: Columns[Summary] = (
        Column("metric", lambda s: s.metric, words=True),
        Column("parameters", lambda s: format_point(s.params), words=True),
        Column("n", lambda s: f"{s.n}" if s.complete else f"{s.n} (stopped)", spare=3),
        Column("median", lambda s: format_value(s.median, s.unit), show=wide),
        Column("median ± half-CI", _with_error, show=not wide),
        Column("of limit", lambda s: share_text(s.share), show=has_limit, spare=4),
        Column("95% CI, this launch", lambda s: ends_text(s.ci, s.unit, NO_CI), show=has_details),
        Column("p5", lambda s: format_value(s.p5, s.unit), show=has_details),
        Column("p95", lambda s: format_value(s.p95, s.unit), show=has_details),
        Column("p99", lambda s: format_value(s.p99, s.unit), show=has_repeats, spare=2),
        Column("converged", lambda s: CONVERGED[s.converged], words=True, show=has_details),
        Column("limit", lambda s: value_text(s.bound, s.unit), show=wide and has_limit),
        Column("remarks", lambda s: ", ".join(remarks(s)), words=True, show=has_remarks, spare=1),
    )
    return make_table(title, summaries, columns, notes)


def value_text(value: float | None, unit: str, missing: str = "none") -> str:
    return missing if value is None else format_value(value, unit)


def ends_text(ends: tuple[float, float] | None, unit: str, missing: str = "none") -> str:
    """Format an interval: `1.2 µs .. 1.3 µs`."""
    return missing if ends is None else " .. ".join(format_value(end, unit) for end in ends)


def share_text(share: float | None, missing: str = "none") -> str:
    return missing if share is None else f"{share:.1%}"


def _with_error(summary: Summary) -> str:
    """Return the median, and half of its confidence interval in percent of it."""
    median = format_value(summary.median, summary.unit)
    if summary.ci is None or not 0 < summary.median < math.inf:
        return median
    half = (summary.ci[1] - summary.ci[0]) / 2 / summary.median
    return f"{median} ±{half:.1%}" if half < math.inf else median


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
