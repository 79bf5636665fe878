"""The main program of a rank."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from cluster.agent.protocol import REASON, WORKDIR
from cluster.core.errors import ClusterError
from cluster.core.options import convert
from cluster.measure.rank import Rank

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from cluster.measure.benchmark import Benchmark


class _Told:
    """This rank, from its starter's variables; MPI is left to the program that it starts."""

    def Get_rank(self) -> int:  # noqa: N802 - as mpi4py says it
        return self._number("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", otherwise=0)

    def Get_size(self) -> int:  # noqa: N802
        return self._number("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", otherwise=1)

    @staticmethod
    def _number(*names: str, otherwise: int) -> int:
        return next((int(os.environ[name]) for name in names if name in os.environ), otherwise)


def main_without_mpi(benchmark: Benchmark[Any]) -> None:
    """Run a benchmark as one rank that is no rank of MPI itself, for what it starts may be one.

    Args:
        benchmark: to run; its parameters are the first argument, as JSON.

    """
    params = convert(msgspec.json.decode(sys.argv[1]), benchmark.Params, "parameter")
    rank = Rank(cast("Intracomm", _Told()), Path.cwd())
    _enter_copy()
    benchmark.measure(rank, params)
    rank.write_process_info()


def _enter_copy() -> None:
    """Work in the copy of the user's folder, if the job has one."""
    if Path(WORKDIR).is_dir():
        os.chdir(WORKDIR)


def main(benchmark: Benchmark[Any]) -> None:
    """Run a benchmark as one rank: the last line of every benchmark's file.

    Whatever goes wrong on one rank ends all of them: the others would wait for it for ever. What
    a rank refuses is the reason of the run.

    Args:
        benchmark: to run; its parameters are the first argument, as JSON.

    """
    import mpi4py  # noqa: PLC0415

    mpi4py.rc.thread_level = "funneled"  # locks for more would be in every latency
    from mpi4py import MPI  # noqa: PLC0415 - importing it starts MPI

    comm, folder = MPI.COMM_WORLD, Path.cwd()
    try:
        params = convert(msgspec.json.decode(sys.argv[1]), benchmark.Params, "parameter")
        rank = Rank(comm, folder)
        _enter_copy()
        benchmark.measure(rank, params)
        rank.write_process_info()
        comm.Barrier()  # until then all connections are there
    except ClusterError as error:
        (folder / REASON).write_text(error.what)
        sys.stderr.write(f"Rank {comm.Get_rank()} of {comm.Get_size()}: {error}\n")
        sys.stderr.flush()
        comm.Abort(1)
    except (Exception, SystemExit):  # noqa: BLE001 - whatever it was, the others must not wait
        sys.stderr.write(f"Rank {comm.Get_rank()} of {comm.Get_size()} failed:\n")
        traceback.print_exc()
        sys.stderr.flush()
        comm.Abort(1)
