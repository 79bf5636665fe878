"""The interface of the timed loops of `collectives`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.benchmarks.collectives.series import CollectiveSeries
    from cluster.core.model.measurements import Definition


class CollectiveLoops:
    """Does the repetitions: `prepared` gives a function from their number to their seconds."""

    def defined(self, definition: Definition) -> Definition:
        """Give the definition under which values are recorded.

        Args:
            definition: of the same operation, timed by a loop in Python.

        Returns:
            The definition.

        """
        return definition

    def prepared(self, cell: CollectiveSeries) -> Callable[[int], list[float]]:
        """Give the function that repeats an operation.

        Args:
            cell: the operation, and its data.

        Returns:
            A function that takes the number of repetitions, and gives the seconds of each.

        """
        raise NotImplementedError

    def close(self) -> None:
        """Leave the process group, if there is one."""
