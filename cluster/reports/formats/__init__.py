"""Summaries as text or pictures: one file per format, pure."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from cluster.core.plugins import Plugin
from cluster.core.units import format_point, format_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cluster.core.model.measurements import Summary


class Report(Plugin):
    """One format of showing summaries."""

    folder: ClassVar[str] = "cluster.reports.formats"
    user_folder: ClassVar[str] = "reports"

    @abstractmethod
    def render(self, summaries: Sequence[Summary], *, notes: Sequence[str] = ()) -> str | bytes:
        """Show summaries.

        Args:
            summaries: to show, in this order.
            notes: what a reader of the numbers must know.

        Returns:
            A text that ends with a newline, or a picture.

        """


class Column(NamedTuple):
    """A column of the tables for people.

    Args:
        name: its heading.
        cell: the text for a summary; every value with its unit.
        words: it holds words, not numbers.
        shown: if given, the column is left out unless this holds for a summary of the table.

    """

    name: str
    cell: Callable[[Summary], str]
    words: bool = False
    shown: Callable[[Summary], bool] | None = None


def _value(summary: Summary, value: float) -> str:
    return format_value(value, summary.unit)


def _interval(summary: Summary) -> str:
    if summary.ci is None:
        return "none (n < 6)"
    return " .. ".join(_value(summary, end) for end in summary.ci)


def _is_bounded(summary: Summary) -> bool:
    return summary.bound is not None


COLUMNS = (
    Column("metric", lambda s: s.metric, words=True),
    Column("parameters", lambda s: format_point(s.params), words=True),
    Column("n", lambda s: f"{s.n}" if s.complete else f"{s.n} (stopped)"),
    Column("median", lambda s: _value(s, s.median)),
    Column("95% CI of median", _interval),
    Column("p5", lambda s: _value(s, s.p5)),
    Column("p95", lambda s: _value(s, s.p95)),
    Column("p99", lambda s: _value(s, s.p99)),
    Column("converged", lambda s: "yes" if s.converged else "not converged", words=True),
    Column("bound", lambda s: "none" if s.bound is None else _value(s, s.bound), shown=_is_bounded),
    Column(
        "of bound", lambda s: "none" if s.share is None else f"{s.share:.1%}", shown=_is_bounded
    ),
    Column(
        "remarks", lambda s: ", ".join(remarks(s)), words=True, shown=lambda s: bool(remarks(s))
    ),
)
"""A new column is one more entry: the terminal, Markdown, HTML and the report show it."""
LEFT = tuple(column.name for column in COLUMNS if column.words)


def _shown(summaries: Sequence[Summary]) -> Iterator[Column]:
    for column in COLUMNS:
        if column.shown is None or any(map(column.shown, summaries)):
            yield column


def columns(summaries: Sequence[Summary]) -> tuple[str, ...]:
    """Name the columns of a table for people.

    Args:
        summaries: to show in it.

    Returns:
        The names of those `COLUMNS` that say something of a summary.

    """
    return tuple(column.name for column in _shown(summaries))


def rows(summaries: Sequence[Summary]) -> list[tuple[str, ...]]:
    """Give summaries as the rows of a table for people.

    Args:
        summaries: to show.

    Returns:
        For each a text per column of `columns(summaries)`.

    """
    shown = tuple(_shown(summaries))
    return [tuple(column.cell(summary) for column in shown) for summary in summaries]


HEAVY = 1.5  # the slowest hundredth over the median, from which a tail is worth a remark


def remarks(summary: Summary) -> tuple[str, ...]:
    """Say in a few words what a reader of a median must know of the series.

    Args:
        summary: of the series.

    Returns:
        Such as `drifts +4.1%`; nothing if the median says it all.

    """
    form = summary.shape
    if form is None:
        return ()
    found = []
    if form.drifts and form.drift is not None:
        found.append(f"drifts {form.drift:+.1%}")
    if form.modes:
        found.append("modes " + ", ".join(format_value(m, summary.unit) for m in form.modes))
    if form.tail > HEAVY:
        found.append(f"tail {form.tail:.1f} x")
    if form.outliers:
        found.append(f"outliers {form.outliers}")
    return tuple(found)
