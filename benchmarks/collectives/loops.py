"""The interface of the timed loops of `collectives`."""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

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

    def repeated(
        self,
        cell: CollectiveSeries,
        once: Callable[[Any], object],
        messages: list[Any],
        wait: Callable[[], object],
        received: Callable[[], Any] | None,
        prepare: Callable[[Any], object] = lambda _: None,
    ) -> Callable[[int], list[float]]:
        """Return a function that repeats an operation until `wait` says that the device is done.

        The messages take turns; `prepare` is not timed. What was `received` is fetched and checked.
        """

        def repeat(n: int) -> list[float]:
            seconds = []
            for _ in range(n):
                message = messages[cell.number % 2]
                prepare(message)
                wait()
                cell.comm.Barrier()
                start = perf_counter_ns()
                once(message)
                wait()
                seconds.append((perf_counter_ns() - start) / 1e9)
                if received:
                    cell.result[:] = received()
                cell.check(cell.number)
                cell.number += 1
            return seconds

        return repeat

    def close(self) -> None:
        """Leave the process group, if there is one."""
