"""The main program of a rank."""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from cluster.agent.protocol import ADVICE, REASON, WORKDIR
from cluster.core.errors import ClusterError, on_failure
from cluster.core.messages import for_command_line
from cluster.core.text.options import convert
from cluster.measure.mpi import ADDRESSES, RANKS, pmi_of, spoken_by
from cluster.measure.rank import Rank

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from cluster.core.model.value import Value
    from cluster.measure.benchmark import Benchmark

# Of Open MPI, PMIx, PMI-2, srun without a PMI, and aprun.
RANK_OF = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "ALPS_APP_PE")
SIZE_OF = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
TORCHRUN = "TORCHELASTIC_RUN_ID"  # set by torchrun, which mpirun or srun may have started


class _RankFromVariables:
    """This rank's number, from its starter's variables: the program that it starts may use MPI."""

    def Get_rank(self) -> int:  # noqa: N802 - as in mpi4py
        return self._number("RANK", *RANK_OF, otherwise=0)

    def Get_size(self) -> int:  # noqa: N802
        return self._number("WORLD_SIZE", *SIZE_OF, otherwise=1)

    @staticmethod
    def _number(torch: str, *names: str, otherwise: int) -> int:
        if TORCHRUN in os.environ:
            return int(os.environ[torch])
        return next((int(os.environ[name]) for name in names if name in os.environ), otherwise)


def main_without_mpi(benchmark: Benchmark[Any]) -> None:
    """Run a benchmark as one rank, without MPI, because the program that it starts may use MPI."""
    params = convert(msgspec.json.decode(sys.argv[1]), benchmark.Params, "parameter")
    measure_alone(benchmark, params, Path.cwd())


def measure_alone(benchmark: Benchmark[Any], params: Value, folder: Path) -> None:
    rank = Rank(cast("Intracomm", _RankFromVariables()), folder)
    _enter_copy()
    benchmark.measure(rank, params)
    rank.write_process_info()


def _enter_copy() -> None:
    """Work in the copy of the user's folder, if the job has one."""
    if Path(WORKDIR).is_dir():
        os.chdir(WORKDIR)


def main(benchmark: Benchmark[Any]) -> None:
    """Run a benchmark as one rank: the last line of every benchmark's file.

    Its parameters are the first argument, as JSON. An error on one rank ends all of them: the
    others would wait for it for ever. A `ClusterError` becomes the run's reason.
    """
    import mpi4py  # noqa: PLC0415

    mpi4py.rc.thread_level = "funneled"  # the locks of higher levels would add to every latency
    from mpi4py import MPI  # noqa: PLC0415 - importing it starts MPI

    comm, folder = MPI.COMM_WORLD, Path.cwd()
    try:
        check_world(comm, MPI.Get_library_version())
        params = convert(msgspec.json.decode(sys.argv[1]), benchmark.Params, "parameter")
        rank = Rank(comm, folder)
        rank.watch_others()
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


def check_world(comm: Intracomm, library: str, variables: Mapping[str, str] = os.environ) -> None:
    """Refuse a world of another size than was started, or a rank on another host (ClusterError)."""
    places = variables.get(ADDRESSES, "").split(",") if variables.get(ADDRESSES) else []
    expected = len(places) or int(variables.get(RANKS) or 0)
    rank, size = comm.Get_rank(), comm.Get_size()
    if expected and size != expected:
        first = library.partition("\n")[0].partition(",")[0].strip("\0 ")
        srun_pmi, interfaces = pmi_of(variables), spoken_by(library)
        process = variables.get("SLURM_PROCID") or variables.get("PMI_RANK") or "a process"
        if not srun_pmi or srun_pmi in interfaces:
            raise ClusterError(
                f"{expected} ranks were started, and this one found itself rank {rank} of {size}.",
                means="Nothing was measured: the ranks do not find one another.",
                remedy="Start them by the mpirun of the same MPI: --starter mpirun",
            )
        right = [f"--starter srun:{pmi}" for pmi in interfaces if pmi != srun_pmi]
        raise ClusterError(
            f"{expected} ranks were started, and process {process} found itself rank {rank} of "
            f"{size}: srun started it with --mpi={srun_pmi}, which {first} does not speak.",
            means=f"Nothing was measured. It speaks {' and '.join(interfaces)}.",
            remedy=f"Type: {' or '.join([*right, '--starter mpirun'])}",
        )
    if len(set(places)) > 1 and not _is_here(places[rank]):
        # Its host has the address of another rank, and not its own.
        places_left = (place for place in dict.fromkeys(places) if place != places[rank])
        if host := next(filter(_is_here, places_left), ""):
            raise ClusterError(
                f"Rank {rank} belongs on the host {places[rank]}, and runs on {host}.",
                means="Nothing was measured: the values would belong to other pairs of hosts.",
                remedy="Start the ranks by another starter: --starter mpirun",
            )


def _is_here(address: str) -> bool:
    """Tell whether this host has an address: only then can a socket be bound to it."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        return True
    return False
