"""JSON in base units, for other programs."""

from collections.abc import Sequence

from cluster.core import decoders
from cluster.core.model.results.measurements import Summary
from cluster.reports.formats import Report
from cluster.reports.words.verdict import summary_answers


class Json(Report):
    """A list of objects with every field of a summary: seconds, bytes, bytes per second."""

    def render(self, summaries: Sequence[Summary], *, notes: Sequence[str] = ()) -> str:
        """Write an object per summary; the notes are in the run's record."""
        return decoders.encode_indented(summary_answers(summaries)).decode()
