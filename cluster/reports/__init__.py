"""Summaries as text or pictures: one file per format, pure."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from cluster.plugins import Plugin
from cluster.units import format_size, format_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.model import Scalar, Summary


class Report(Plugin):
    """One format of showing summaries."""

    folder: ClassVar[str] = "cluster.reports"

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


def row(summary: Summary) -> tuple[str, ...]:
    """Give a summary as the cells of a table for people.

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
        ", ".join(_param(key, value) for key, value in summary.params.items()),
        f"{summary.n}" if summary.complete else f"{summary.n} (stopped)",
        format_value(summary.median, unit),
        ci,
        *points,
        "yes" if summary.converged else "not converged",
    )


def _param(key: str, value: Scalar) -> str:
    if key == "size" and isinstance(value, int):
        return format_size(value)
    return f"{key} {value}"
