"""The main program of a rank."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from cluster.agent.protocol import ADVICE, REASON, WORKDIR
from cluster.core.cleanup import on_failure
from cluster.core.errors import ClusterError
from cluster.core.messages import for_command_line
from cluster.core.options import convert
from cluster.measure.rank import Rank
from cluster.measure.world import check_world

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from cluster.measure.benchmark import Benchmark

# Of Open MPI, PMIx, PMI-2, srun without a PMI, and aprun.
RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "ALPS_APP_PE")
SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
TORCHRUN = "TORCHELASTIC_RUN_ID"  # set by torchrun, which mpirun or srun may have started


class _RankFromVariables:
    """This rank's number, from its starter's variables: the program that it starts may use MPI."""

    def Get_rank(self) -> int:  # noqa: N802 - as in mpi4py
        return self._number("RANK", *RANKS, otherwise=0)

    def Get_size(self) -> int:  # noqa: N802
        return self._number("WORLD_SIZE", *SIZES, otherwise=1)

    @staticmethod
    def _number(torch: str, *names: str, otherwise: int) -> int:
        if TORCHRUN in os.environ:
            return int(os.environ[torch])
        return next((int(os.environ[name]) for name in names if name in os.environ), otherwise)


def main_without_mpi(benchmark: Benchmark[Any]) -> None:
    """Run a benchmark as one rank, without MPI, because the program that it starts may use MPI.

    Args:
        benchmark: to run; its parameters are the first argument, as JSON.

    """
    params = convert(msgspec.json.decode(sys.argv[1]), benchmark.Params, "parameter")
    rank = Rank(cast("Intracomm", _RankFromVariables()), Path.cwd())
    _enter_copy()
    benchmark.measure(rank, params)
    rank.write_process_info()


def _enter_copy() -> None:
    """Work in the copy of the user's folder, if the job has one."""
    if Path(WORKDIR).is_dir():
        os.chdir(WORKDIR)


def main(benchmark: Benchmark[Any]) -> None:
    """Run a benchmark as one rank: the last line of every benchmark's file.

    An error on one rank ends all of them: the others would wait for it for ever. A `ClusterError`
    becomes the run's reason.

    Args:
        benchmark: to run; its parameters are the first argument, as JSON.

    """
    import mpi4py  # noqa: PLC0415

    mpi4py.rc.thread_level = "funneled"  # the locks of higher levels would add to every latency
    from mpi4py import MPI  # noqa: PLC0415 - importing it starts MPI

    comm, folder = MPI.COMM_WORLD, Path.cwd()
    try:
        check_world(comm, MPI.Get_library_version())
        params = convert(msgspec.json.decode(sys.argv[1]), benchmark.Params, "parameter")
        rank = Rank(comm, folder)
        _enter_copy()
        with on_failure(rank.give_up):  # what was measured until then is kept
            benchmark.measure(rank, params)
        rank.write_process_info()
        comm.Barrier()  # no rank ends while another still reads its connections
    except ClusterError as error:
        advice = "\n".join(part for part in (error.means, error.remedy) if part)
        (folder / REASON).write_text(f"{error.what}{ADVICE}{advice}" if advice else error.what)
        with for_command_line():  # a rank does not know its reader; a job is a command
            sys.stderr.write(f"Rank {comm.Get_rank()} of {comm.Get_size()}: {error}\n")
        sys.stderr.flush()
        comm.Abort(1)
    except (Exception, SystemExit):  # noqa: BLE001 - after any error, the others must not wait
        sys.stderr.write(f"Rank {comm.Get_rank()} of {comm.Get_size()} failed:\n")
        traceback.print_exc()
        sys.stderr.flush()
        comm.Abort(1)
