"""Summaries as text or pictures: one file per format, without side effects."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from cluster.core.model.results.measurements import Summary
from cluster.core.plugins import Plugin


class Report(Plugin):
    """A format in which summaries are shown."""

    folder: ClassVar[str] = "cluster.reports.formats"
    user_folder: ClassVar[str] = "reports"

    @abstractmethod
    def render(self, summaries: Sequence[Summary], *, notes: Sequence[str] = ()) -> str | bytes:
        """Show summaries.

        Args:
            summaries: to show, in this order.
            notes: what a reader of the values must know.

        Returns:
            A text that ends with a newline, or a picture.
        """
