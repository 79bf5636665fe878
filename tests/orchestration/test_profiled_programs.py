"""Profiles taken live hold the truth: calls, bytes and sizes of programs that are known."""

import os
import shutil
from pathlib import Path

import pytest

from cluster.core.model.logs import Profile
from cluster.measure import kernels
from cluster.runs import store
from tests.conftest import BIN, answer, command, run, runs_folder
from tests.orchestration.profiles import job, profiles, sums

pytestmark = pytest.mark.usefixtures("compiler")
PROGRAMS = Path(__file__).with_name("programs")
WINDOWS = PROGRAMS / "windows_and_files.c"
KNOWN = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
doubles, other = np.zeros(1000), np.zeros(1000)
for _ in range(7):
    comm.Allreduce(doubles[:1], other[:1])
for _ in range(3):
    comm.Bcast(doubles, root=0)
comm.Barrier()
comm.Reduce(doubles[:50], other[:50], root=0)
comm.Allgather(doubles[:10], np.zeros(10 * size))
comm.Allgather(MPI.IN_PLACE, np.zeros(4 * size))
comm.Alltoall(np.zeros(5 * size), np.zeros(5 * size))
comm.Alltoallv([np.zeros(3 * size), [3] * size], [np.zeros(3 * size), [3] * size])
comm.Gather(doubles[:20], np.zeros(20 * size) if rank == 0 else None, root=0)
comm.Scatter(np.zeros(30 * size) if rank == 0 else None, other[:30], root=0)
comm.Reduce_scatter_block(np.zeros(6 * size), np.zeros(6))
comm.Iallreduce(doubles[:2], other[:2]).Wait()
comm.Ibarrier().Wait()
if rank == 0:
    comm.Send(doubles[:125], dest=1)
    comm.Send(doubles[:0], dest=1)
    comm.Ssend(doubles[:1], dest=1)
    MPI.Request.Waitall([comm.Isend(doubles[:100], dest=1) for _ in range(4)])
    comm.Send(doubles, dest=MPI.PROC_NULL)
    comm.Sendrecv(doubles[:8], dest=1, recvbuf=other[:9], source=1)
elif rank == 1:
    comm.Recv(other, source=0)
    comm.Recv(other, source=0)
    comm.Recv(other, source=0)
    MPI.Request.Waitall([comm.Irecv(other[:100], source=0) for _ in range(4)])
    comm.Sendrecv(doubles[:9], dest=0, recvbuf=other[:8], source=0)
"""
# Routine, calls and bytes in all, of each rank of two.
BOTH = {
    "MPI_Allreduce": (7, 7 * 8),
    "MPI_Bcast": (3, 3 * 8000),
    "MPI_Barrier": (1, 0),
    "MPI_Reduce": (1, 400),
    "MPI_Allgather": (2, 80 + 32),
    "MPI_Alltoall": (1, 2 * 40),
    "MPI_Alltoallv": (1, 2 * 24),
    "MPI_Gather": (1, 160),
    "MPI_Scatter": (1, 240),
    "MPI_Reduce_scatter_block": (1, 2 * 48),
    "MPI_Iallreduce": (1, 16),
    "MPI_Ibarrier": (1, 0),
    "MPI_Wait": (2, 0),
    "MPI_Waitall": (1, 0),
}
SENT = {"MPI_Send": (3, 1000), "MPI_Ssend": (1, 8), "MPI_Isend": (4, 3200), "MPI_Sendrecv": (1, 64)}
RECEIVED = {"MPI_Recv": (3, 1008), "MPI_Irecv": (4, 3200), "MPI_Sendrecv": (1, 72)}


def test_a_program_of_mpi4py_is_counted_to_the_byte(home: Path) -> None:
    """Every routine's calls and bytes are those of the program, and every sum agrees."""
    (home / "known.py").write_text(KNOWN)
    command("up", "mine")
    output = command("run", "mine", "--profile", "--", "python3", str(home / "known.py")).stdout
    newest = store.read(store.find(runs_folder(), "latest"))
    result = profiles(newest.folder / "raw")

    assert "MPI profiles: 2; show them: cluster more profile mine/" in output
    assert sums(result[0]) == {**BOTH, **SENT}
    assert sums(result[1]) == {**BOTH, **RECEIVED}
    profile_job = job(result)
    assert [check for check in profile_job.checks if not check.agrees] == []
    assert {(b.routine, b.size, b.calls) for b in profile_job.bins if b.routine == "MPI_Isend"} == {
        ("MPI_Isend", 800.0, 4)
    }
    assert [task.rank for task in result[0].tasks] == [0, 1]
    assert answer("more", "profile", "latest")["jobs"][0]["calls"] == profile_job.calls
    assert {m.metric for m in newest.measurements} == {"run_time"}
    command("down", "mine")


EACH = {
    "MPI_Gather": (1, 8),
    "MPI_Alltoallw": (1, 2 * 8 + 2 * 4),
    "MPI_Startall": (1, 0),
    "MPI_Waitany": (1, 0),
    "MPI_Waitsome": (1, 0),
    "MPI_Testall": (1, 0),
}


def with_own_mpi(folder: Path, source: Path, *words: str) -> dict[int, Profile]:
    """Run a program of C by the Open MPI that we install, profiled."""
    run(str(BIN / "mpicc"), str(source), "-o", "program", cwd=folder)
    command("up", "mine")
    command("run", "mine", "--profile", "--", str(folder / "program"), *words)
    result = profiles(store.find(runs_folder(), "latest") / "raw")
    command("down", "mine")
    return result


def test_a_program_of_c_is_counted_to_the_byte(home: Path) -> None:
    """Nobody to send to, types with gaps, data in place, no status wanted, several threads."""
    result = with_own_mpi(home, PROGRAMS / "messages.c")

    first = {"MPI_Gatherv": (1, 12), "MPI_Scatterv": (1, 12)}
    second = {"MPI_Gatherv": (1, 4), "MPI_Scatterv": (1, 4)}
    assert sums(result[0]) == {"MPI_Send": (2, 32), "MPI_Recv": (1, 0), **EACH, **first}
    assert sums(result[1]) == {"MPI_Send": (1, 0), "MPI_Recv": (2, 32), **EACH, **second}
    assert [check for check in job(result).checks if not check.agrees] == []


WINDOWED = {
    "MPI_Win_allocate": (1, 0),
    "MPI_Win_fence": (2, 0),
    "MPI_Put": (2, 64),
    "MPI_Get": (1, 32),
    "MPI_Accumulate": (1, 16),
    "MPI_Win_lock": (1, 0),
    "MPI_Rput": (1, 40),
    "MPI_Wait": (2, 0),
    "MPI_Get_accumulate": (1, 24),
    "MPI_Win_flush": (1, 0),
    "MPI_Fetch_and_op": (1, 8),
    "MPI_Compare_and_swap": (1, 4),
    "MPI_Win_unlock": (1, 0),
    "MPI_Win_free": (1, 0),
    "MPI_Barrier": (1, 0),
}
FILED = {
    "MPI_File_open": (1, 0),
    "MPI_File_write_at": (1, 80),
    "MPI_File_sync": (1, 0),
    "MPI_File_read_at_all": (1, 160),
    "MPI_File_read_at": (5000, 200_000),  # 40 bytes each: the file has no more
    "MPI_File_iread_at": (1, 16),
    "MPI_File_write_at_all_begin": (1, 80),
    "MPI_File_write_at_all_end": (1, 0),
    "MPI_File_close": (1, 0),
}


def test_one_sided_and_file_operations_are_counted_to_the_byte(home: Path) -> None:
    """Files are no communication; each sum agrees."""
    result = with_own_mpi(home, WINDOWS, str(home / "file"))

    assert [sums(result[rank]) for rank in (0, 1)] == [{**WINDOWED, **FILED}] * 2
    profile_job = job(result)
    assert [check for check in profile_job.checks if not check.agrees] == []
    assert sum(check.sum == "files" for check in profile_job.checks) == 2
    for profile in result.values():
        files = sum(r.time for r in profile.routines if r.name in FILED)
        assert profile.files == pytest.approx(files, abs=0.001 * (len(FILED) + 1))
        assert profile.files > 0


# Another Open MPI than ours, with the bindings and components that ours has not.
SYSTEM = Path("/usr/bin")


def with_system_mpi(folder: Path, *program: str, mca: tuple[str, ...] = ()) -> dict[int, Profile]:
    """Run a program by the system's Open MPI, profiled."""
    library = folder / "own.so"
    source = Path(kernels.__file__).with_name("profile.c")
    run(str(SYSTEM / "mpicc.openmpi"), *kernels.FLAGS, str(source), "-o", str(library))
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    words = [str(SYSTEM / "mpirun.openmpi"), *root, "--bind-to", "none", *mca]
    traced = ["env", f"LD_PRELOAD={library}", "SAVE_ALL_TASKS=yes", *program]
    run(*words, "--host", "localhost:2", "-np", "2", *traced, cwd=folder)
    return profiles(folder)


def test_what_mpi_calls_by_itself_belongs_to_the_call_of_the_program(home: Path) -> None:
    """ROMIO opens and reads files by dozens of calls of MPI's own entries."""
    needed = ("lib/openmpi3/mca_io_romio*.so", "include/mpi.h")
    if not all(any(Path("/usr/lib").glob(f"*/openmpi/{file}")) for file in needed):
        pytest.skip("there is no Open MPI with ROMIO: apt-get install libopenmpi-dev openmpi-bin")
    run(str(SYSTEM / "mpicc.openmpi"), str(WINDOWS), "-o", "shared", cwd=home)
    result = with_system_mpi(home, "./shared", "file", mca=("--mca", "io", "^ompio"))

    assert [sums(result[rank]) for rank in (0, 1)] == [{**WINDOWED, **FILED}] * 2


FROM_FORTRAN = {
    "MPI_Allreduce": (6, 5 * 24 + 32),
    "MPI_Isend": (1, 24),
    "MPI_Irecv": (1, 24),
    "MPI_Waitall": (1, 0),
    "MPI_Gather": (1, 12),
}


@pytest.mark.parametrize("binding", ["mpif.h", "MODULE", "F08"])
def test_a_program_of_fortran_is_counted_to_the_byte(binding: str, home: Path) -> None:
    """Whichever way it takes to MPI, each call is counted, and counted once."""
    modules = any(Path("/usr/lib").glob("*/fortran/*/openmpi/mpi.mod"))
    if shutil.which("gfortran") is None or not (SYSTEM / "mpif90.openmpi").exists() or not modules:
        pytest.skip("there is no Fortran: apt-get install gfortran libopenmpi-dev openmpi-bin")
    words = [
        "-fallow-argument-mismatch",
        f"-D{binding.partition('.')[0]}",
        str(PROGRAMS / "known.F90"),
    ]
    run(str(SYSTEM / "mpif90.openmpi"), *words, "-o", "known", cwd=home)
    result = with_system_mpi(home, "./known")

    assert sums(result[0]) == {"MPI_Send": (2, 96), **FROM_FORTRAN}
    assert sums(result[1]) == {"MPI_Recv": (2, 96), **FROM_FORTRAN}
    assert [check for check in job(result).checks if not check.agrees] == []
