"""The interface of the timed loops of `collectives`."""

from __future__ import annotations

from collections.abc import Callable

from cluster.benchmarks.collectives.series import CollectiveSeries
from cluster.core.model.measurements import Definition


class CollectiveLoops:
    """Does the repetitions: `prepared` gives a function from their number to their seconds."""

    def defined(self, definition: Definition) -> Definition:
        """Return the definition under which values are recorded."""
        return definition

    def prepared(self, cell: CollectiveSeries) -> Callable[[int], list[float]]:
        """Return the function that repeats an operation, and returns the seconds of each."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave the process group, if there is one."""
