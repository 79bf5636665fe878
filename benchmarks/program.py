"""The time of any command on each rank, an MPI program or not; `cluster run --mpi` uses it."""

import os
from collections.abc import Mapping
from time import perf_counter
from typing import ClassVar

from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import define
from cluster.core.model.value import Value
from cluster.measure.benchmark import Benchmark
from cluster.measure.main import main_without_mpi as main
from cluster.measure.rank import Rank

(RUN_TIME,) = define(
    "program",
    """
    run_time (s, each rank): the command of one rank, from its start to its end, its shell included
    """,
    clock="time.perf_counter of each rank",
    synchronisation="none: ranks start as fast as their hosts can",
    warm_up="none",
)


class ProgramParams(Value, frozen=True, kw_only=True):
    """The parameters of `program`.

    Args:
        command: What each rank runs with sh: in the copy of your working folder, or without one in
            the job's folder, where files have to be named by absolute paths.
    """

    command: str = ""


class Program(Benchmark[ProgramParams]):
    """One command on all ranks; an MPI program gets them as its ranks."""

    Params = ProgramParams
    metrics = (RUN_TIME,)
    needs_mpi = False
    variables: ClassVar[Mapping[str, str]] = {}  # the command gets the user's environment

    def check(self, params: ProgramParams, ranks: int) -> None:
        if not params.command.strip():
            raise SpecError(
                "There is no command.",
                remedy="Give the command that each rank runs: --command 'hostname -f'",
            )

    def measure(self, rank: Rank, params: ProgramParams) -> None:
        """Run the command to its end; if it fails, no time is recorded."""
        values = rank.begin(RUN_TIME, {})
        start = perf_counter()
        status = os.spawnvp(os.P_WAIT, "sh", ["sh", "-c", params.command])  # noqa: S606
        seconds = perf_counter() - start
        if status:
            raise SystemExit(status if status > 0 else 128 - status)
        values.append(seconds)
        rank.end()


if __name__ == "__main__":
    main(Program())
