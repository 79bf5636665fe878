"""How often a rank repeats a measurement: a fixed number, or until the median is precise."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from cluster.core.errors import SpecError
from cluster.core.model.value import Value

if TYPE_CHECKING:
    from mpi4py.MPI import Comm

MOST = 20_000  # values at most, with --until-precise
BUDGET = 2.0  # seconds of a series, unless the user says how many values it has
WARMING = 0.1  # of the budget, at most, for the warm-up
FEWEST = 10  # values of a series, however long they take


class Repetitions(Value, frozen=True, kw_only=True):
    """The parameters that all benchmarks with repetitions share.

    Args:
        iterations: Values per size. [default: as OSU]
        warm_up: Untimed repetitions before. [default: as OSU]
        until_precise: Stop when the median is known to 2.5%.
        max_iterations: Limit of --until-precise. [default: 20000]
    """

    iterations: int | None = None
    warm_up: int | None = None
    until_precise: bool = False
    max_iterations: int | None = None

    def check(self) -> None:
        """Refuse numbers that are too small, and flags without effect (SpecError)."""
        for field in ("iterations", "max_iterations"):
            count = getattr(self, field)
            if count is not None and count < 1:
                flag = field.replace("_", "-")
                raise SpecError(f"--{flag} is {count}; it must be at least 1.")
        if self.warm_up is not None and self.warm_up < 0:
            raise SpecError(f"--warm-up is {self.warm_up}; it must be at least 0.")
        if self.until_precise and self.iterations is not None:
            raise SpecError(
                "--iterations and --until-precise contradict each other.",
                remedy="Leave one out, or use --max-iterations.",
            )
        if self.max_iterations is not None and not self.until_precise:
            raise SpecError("--max-iterations has no effect without --until-precise.")

    def counts(self, warm_up: int, values: int) -> Counts:
        """Return how many repetitions are done, by default `warm_up` and `values`."""
        if self.until_precise:
            values = self.max_iterations or MOST
        elif self.iterations is not None:
            values = self.iterations
        free = self.iterations is None and self.warm_up is None and not self.until_precise
        budget = BUDGET if free else 0.0
        return Counts(
            warm_up=warm_up if self.warm_up is None else self.warm_up,
            values=values,
            adaptive=self.until_precise,
            seconds=budget,
        )


class Counts(Value, frozen=True, kw_only=True):
    """How many repetitions are done."""

    warm_up: int  # repetitions that are not timed
    values: int  # repetitions that are timed; if adaptive, the maximum
    adaptive: bool  # whether the repetitions end when the median is precise
    seconds: float = 0.0  # after which FEWEST values are enough; 0 for no such end


def samples(
    repeat: Callable[[int], list[float]], counts: Counts, most: int, comm: Comm, values: list[float]
) -> Iterator[tuple[int, list[float]]]:
    """Warm up, then repeat until there are enough values, which are added to `values`.

    All ranks of `comm` do the same number of repetitions: where time counts, it is that of the
    first. `repeat` does that many, and returns the seconds of each. Yields the number of
    repetitions since the warm-up, and the seconds of the latest.
    """
    from cluster.analysis.statistics.distribution import ENOUGH_VALUES, has_converged  # noqa: PLC0415 - NumPy

    start, result, step = time.monotonic(), -counts.warm_up, 1 if counts.seconds else most
    checkpoint = ENOUGH_VALUES if counts.adaptive else counts.values
    while result < counts.values:
        end = min(checkpoint, counts.values) if result >= 0 else 0
        n = min(most, step, end - result)
        step *= 2
        seconds = repeat(n)
        result += n
        budget = counts.seconds * (WARMING if result <= 0 else 1.0)
        is_over = budget and comm.bcast(time.monotonic() - start > budget)
        if result <= 0:
            result = 0 if is_over else result
            continue
        values += seconds
        yield result, seconds
        if is_over and result >= FEWEST:
            return
        if counts.adaptive and result == checkpoint:
            enough = not values or has_converged(values)  # of every rank that records values
            if comm.allreduce(int(enough)) == comm.Get_size():
                return
            checkpoint += max(1, checkpoint // 10)
