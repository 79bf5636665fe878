"""Summaries as text or pictures: one file per format, pure."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from cluster.core.plugins import Plugin
from cluster.core.units import format_point, format_value

if TYPE_CHECKING:
    from collections.abc import Sequence

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


COLUMNS = (
    "metric",
    "parameters",
    "n",
    "median",
    "95% CI of median",
    "p5",
    "p95",
    "p99",
    "converged",
)
BOUND_COLUMNS = ("bound", "of bound")
REMARKS_COLUMNS = ("remarks",)
HEAVY = 1.5  # the slowest hundredth over the median, from which a tail is worth a remark


def columns(summaries: Sequence[Summary]) -> tuple[str, ...]:
    """Name the columns of a table for people.

    Args:
        summaries: to show in it.

    Returns:
        `COLUMNS`, two for the bound if any summary has one, and one for remarks if there are any.

    """
    return (*COLUMNS, *_if(_bounded(summaries), BOUND_COLUMNS), *_remarks_columns(summaries))


def rows(summaries: Sequence[Summary]) -> list[tuple[str, ...]]:
    """Give summaries as the rows of a table for people.

    Args:
        summaries: to show.

    Returns:
        For each a text per column of `columns(summaries)`.

    """
    bounded, remarked = _bounded(summaries), bool(_remarks_columns(summaries))
    return [
        (*row(s), *_if(bounded, _bound(s)), *_if(remarked, (", ".join(remarks(s)),)))
        for s in summaries
    ]


def _bounded(summaries: Sequence[Summary]) -> bool:
    return any(summary.bound is not None for summary in summaries)


def _remarks_columns(summaries: Sequence[Summary]) -> tuple[str, ...]:
    return _if(any(remarks(summary) for summary in summaries), REMARKS_COLUMNS)


def _if(shown: bool, cells: tuple[str, ...]) -> tuple[str, ...]:  # noqa: FBT001 - like `if`
    return cells if shown else ()


def _bound(summary: Summary) -> tuple[str, ...]:
    if summary.bound is None or summary.share is None:
        return "none", "none"
    return format_value(summary.bound, summary.unit), f"{summary.share:.1%}"


def row(summary: Summary) -> tuple[str, ...]:
    """Give a summary as the cells of a table for people, but for its bound and remarks.

    Args:
        summary: to show.

    Returns:
        A text per column of `COLUMNS`; every value with its unit.

    """
    unit = summary.unit
    ci = "none (n < 6)"
    if summary.ci is not None:
        ci = " .. ".join(format_value(end, unit) for end in summary.ci)
    points = (format_value(p, unit) for p in (summary.p5, summary.p95, summary.p99))
    return (
        summary.metric,
        format_point(summary.params),
        f"{summary.n}" if summary.complete else f"{summary.n} (stopped)",
        format_value(summary.median, unit),
        ci,
        *points,
        "yes" if summary.converged else "not converged",
    )


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
