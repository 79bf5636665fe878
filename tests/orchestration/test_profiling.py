"""Profiles taken live hold the truth: calls, bytes and sizes of programs that are known."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cluster
from cluster.analysis.profiles import job_profiles
from cluster.analysis.profiles.values import JobProfile, Source
from cluster.core.errors import SpecError
from cluster.core.model.logs import Profile
from cluster.logs.reader import read
from cluster.measure import kernels
from cluster.orchestration import profiling
from cluster.runs import store
from tests.conftest import answer, command, run, runs_folder, until

if TYPE_CHECKING:
    from cluster.runs.run import Run

BIN = Path(sys.executable).parent
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
SENT = {
    "MPI_Send": (3, 1000),
    "MPI_Ssend": (1, 8),
    "MPI_Isend": (4, 3200),
    "MPI_Sendrecv": (1, 64),
}
RECEIVED = {"MPI_Recv": (3, 1008), "MPI_Irecv": (4, 3200), "MPI_Sendrecv": (1, 72)}


@pytest.fixture(autouse=True)
def compiler(tools: None) -> None:
    """Skip, with the reason, where nothing can be compiled."""
    del tools
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler: apt-get install gcc")


def profiles(folder: Path) -> dict[int, Profile]:
    found = [r.detail for p in folder.glob("mpi_profile.*") for r in read([p.read_bytes()]).results]
    return {detail.rank: detail for detail in found if isinstance(detail, Profile)}


def job(found: dict[int, Profile]) -> JobProfile:
    (made,) = job_profiles([Source(job="x", profile=profile) for profile in found.values()])
    return made


def sums(profile: Profile) -> dict[str, tuple[int, int]]:
    return {r.name: (r.calls, round(r.calls * r.bytes)) for r in profile.routines}


def test_a_program_of_mpi4py_is_counted_to_the_byte(home: Path) -> None:
    """Every routine's calls and bytes are those of the program, and every sum agrees."""
    (home / "known.py").write_text(KNOWN)
    command("up", "mine")
    shown = command("run", "mine", "--profile", "--", "python3", str(home / "known.py")).stdout
    newest = store.read(store.find(runs_folder(), "latest"))
    found = profiles(newest.folder / "raw")

    assert "MPI profiles: 2; show them: cluster profile mine/" in shown
    assert sums(found[0]) == {**BOTH, **SENT}
    assert sums(found[1]) == {**BOTH, **RECEIVED}
    made = job(found)
    assert [check for check in made.checks if not check.agrees] == []
    assert {(b.routine, b.size, b.calls) for b in made.bins if b.routine == "MPI_Isend"} == {
        ("MPI_Isend", 800.0, 4)
    }
    assert [task.rank for task in found[0].tasks] == [0, 1]
    assert answer("profile", "latest")["jobs"][0]["calls"] == made.calls
    assert {m.metric for m in newest.measurements} == {"run_time"}
    command("down", "mine")


IN_C = """
#include <mpi.h>
int main(int argc, char **argv)
{
    int rank, size, flag = 0, index, done, indices[2], counts[2] = {3, 1}, places[2] = {0, 4};
    double out[64] = {0}, in[64];
    MPI_Datatype column, types[2] = {MPI_DOUBLE, MPI_INT};
    MPI_Request r[2];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &flag);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Type_vector(4, 1, 8, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    MPI_Send(out, 8, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Recv(in, 8, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0)
        MPI_Send(out, 1, column, 1, 1, MPI_COMM_WORLD);
    else
        MPI_Recv(in, 64, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Gather(rank ? out : MPI_IN_PLACE, 2, MPI_INT, in, 2, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Gatherv(rank ? out : MPI_IN_PLACE, counts[rank], MPI_INT, in, counts, places, MPI_INT, 0,
                MPI_COMM_WORLD);
    MPI_Scatterv(out, counts, places, MPI_INT, in, counts[rank], MPI_INT, 0, MPI_COMM_WORLD);
    counts[0] = counts[1] = 2, places[1] = 32;
    MPI_Datatype mine[2] = {types[rank], types[rank]};
    MPI_Alltoallw(out, counts, places, types, in, counts, places, mine, MPI_COMM_WORLD);
    MPI_Send_init(out, 4, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD, &r[0]);
    MPI_Recv_init(in, 4, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD, &r[1]);
    MPI_Startall(2, r);
    MPI_Waitany(2, r, &index, MPI_STATUS_IGNORE);
    MPI_Waitsome(2, r, &done, indices, MPI_STATUSES_IGNORE);
    MPI_Testall(2, r, &flag, MPI_STATUSES_IGNORE);
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
    MPI_Finalize();
    return 0;
}
"""
EACH = {
    "MPI_Gather": (1, 8),
    "MPI_Alltoallw": (1, 2 * 8 + 2 * 4),
    "MPI_Startall": (1, 0),
    "MPI_Waitany": (1, 0),
    "MPI_Waitsome": (1, 0),
    "MPI_Testall": (1, 0),
}


def test_a_program_of_c_is_counted_to_the_byte(home: Path) -> None:
    """Nobody to send to, types with gaps, data in place, no status wanted, several threads."""
    (home / "known.c").write_text(IN_C)
    run(str(BIN / "mpicc"), "known.c", "-o", "known", cwd=home)
    command("up", "mine")
    command("run", "mine", "--profile", "--", str(home / "known"))
    found = profiles(store.find(runs_folder(), "latest") / "raw")
    command("down", "mine")

    first = {"MPI_Gatherv": (1, 12), "MPI_Scatterv": (1, 12)}
    second = {"MPI_Gatherv": (1, 4), "MPI_Scatterv": (1, 4)}
    assert sums(found[0]) == {"MPI_Send": (2, 32), "MPI_Recv": (1, 0), **EACH, **first}
    assert sums(found[1]) == {"MPI_Send": (1, 0), "MPI_Recv": (2, 32), **EACH, **second}
    assert [check for check in job(found).checks if not check.agrees] == []


SHARED = """
#include <mpi.h>
int main(int argc, char **argv)
{
    int rank, other, swapped = 0, one = 1, word = 0;
    double out[64] = {0}, in[64], *base, sum = 1, old;
    MPI_Win w;
    MPI_File f;
    MPI_Request r;
    MPI_Status s;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    MPI_Win_allocate(512, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &w);
    MPI_Win_fence(0, w);
    MPI_Put(out, 8, MPI_DOUBLE, other, 0, 8, MPI_DOUBLE, w);
    MPI_Put(out, 8, MPI_DOUBLE, MPI_PROC_NULL, 0, 8, MPI_DOUBLE, w);
    MPI_Get(in, 4, MPI_DOUBLE, other, 8, 4, MPI_DOUBLE, w);
    MPI_Accumulate(out, 2, MPI_DOUBLE, other, 16, 2, MPI_DOUBLE, MPI_SUM, w);
    MPI_Win_fence(0, w);
    MPI_Win_lock(MPI_LOCK_SHARED, other, 0, w);
    MPI_Rput(out, 5, MPI_DOUBLE, other, 32, 5, MPI_DOUBLE, w, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Get_accumulate(out, 0, MPI_DOUBLE, in, 3, MPI_DOUBLE, other, 0, 3, MPI_DOUBLE, MPI_NO_OP,
                       w);
    MPI_Win_flush(other, w);
    MPI_Fetch_and_op(&sum, &old, MPI_DOUBLE, other, 40, MPI_SUM, w);
    MPI_Compare_and_swap(&one, &word, &swapped, MPI_INT, other, 50, w);
    MPI_Win_unlock(other, w);
    MPI_Win_free(&w);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);
    MPI_File_write_at(f, rank * 80, out, 10, MPI_DOUBLE, MPI_STATUS_IGNORE);
    MPI_File_sync(f);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at_all(f, 0, in, 20, MPI_DOUBLE, MPI_STATUS_IGNORE);
    MPI_File_read_at(f, 120, in, 20, MPI_DOUBLE, &s);
    MPI_File_iread_at(f, 0, in, 2, MPI_DOUBLE, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_File_write_at_all_begin(f, rank * 80, out, 10, MPI_DOUBLE);
    MPI_File_write_at_all_end(f, out, MPI_STATUS_IGNORE);
    MPI_File_close(&f);
    MPI_Finalize();
    return 0;
}
"""
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
    "MPI_File_read_at": (1, 40),  # the file has no more
    "MPI_File_iread_at": (1, 16),
    "MPI_File_write_at_all_begin": (1, 80),
    "MPI_File_write_at_all_end": (1, 0),
    "MPI_File_close": (1, 0),
}


def test_one_sided_and_file_operations_are_counted_to_the_byte(home: Path) -> None:
    """Files are no communication; each sum agrees."""
    (home / "shared.c").write_text(SHARED)
    run(str(BIN / "mpicc"), "shared.c", "-o", "shared", cwd=home)
    command("up", "mine")
    command("run", "mine", "--profile", "--", str(home / "shared"), str(home / "file"))
    found = profiles(store.find(runs_folder(), "latest") / "raw")
    command("down", "mine")

    assert [sums(found[rank]) for rank in (0, 1)] == [{**WINDOWED, **FILED}] * 2
    made = job(found)
    assert [check for check in made.checks if not check.agrees] == []
    assert sum("operations on files" in check.what for check in made.checks) == 2
    for one in found.values():
        files = sum(r.time for r in one.routines if r.name in FILED)
        assert one.files == pytest.approx(files, abs=0.001 * (len(FILED) + 1))
        assert one.files > 0


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
    (home / "shared.c").write_text(SHARED)
    run(str(SYSTEM / "mpicc.openmpi"), "shared.c", "-o", "shared", cwd=home)
    found = with_system_mpi(home, "./shared", "file", mca=("--mca", "io", "^ompio"))

    assert [sums(found[rank]) for rank in (0, 1)] == [{**WINDOWED, **FILED}] * 2


FORTRAN = """
program known
#if defined(F08)
  use mpi_f08
  implicit none
  type(MPI_Request) :: r(2)
  type(MPI_Status) :: s
#else
#if defined(MODULE)
  use mpi
  implicit none
#else
  implicit none
  include 'mpif.h'
#endif
  integer :: r(2), s(MPI_STATUS_SIZE)
#endif
  integer :: rank, i, error
  double precision :: a(100), b(100)
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  a = 1
  do i = 1, 5
    call MPI_Allreduce(a, b, 3, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  end do
  call MPI_Allreduce(MPI_IN_PLACE, b, 4, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  if (rank == 0) then
    call MPI_Send(a, 10, MPI_DOUBLE_PRECISION, 1, 7, MPI_COMM_WORLD, error)
    call MPI_Send(a, 2, MPI_DOUBLE_PRECISION, 1, 7, MPI_COMM_WORLD, error)
  else
    call MPI_Recv(b, 100, MPI_DOUBLE_PRECISION, 0, 7, MPI_COMM_WORLD, s, error)
    call MPI_Recv(b, 100, MPI_DOUBLE_PRECISION, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
  end if
  call MPI_Isend(a, 6, MPI_INTEGER, 1 - rank, 8, MPI_COMM_WORLD, r(1), error)
  call MPI_Irecv(b, 6, MPI_INTEGER, 1 - rank, 8, MPI_COMM_WORLD, r(2), error)
  call MPI_Waitall(2, r, MPI_STATUSES_IGNORE, error)
  call MPI_Gather(a, 3, MPI_INTEGER, b, 3, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
  call MPI_Finalize(error)
end program known
"""
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
    (home / "known.F90").write_text(FORTRAN)
    words = ["-fallow-argument-mismatch", f"-D{binding.partition('.')[0]}", "known.F90"]
    run(str(SYSTEM / "mpif90.openmpi"), *words, "-o", "known", cwd=home)
    found = with_system_mpi(home, "./known")

    assert sums(found[0]) == {"MPI_Send": (2, 96), **FROM_FORTRAN}
    assert sums(found[1]) == {"MPI_Recv": (2, 96), **FROM_FORTRAN}
    assert [check for check in job(found).checks if not check.agrees] == []


def only(found: Run) -> dict[int, Counter[str]]:
    made = profiles(found.folder / "raw")
    return {n: Counter({r.name: r.calls for r in one.routines}) for n, one in made.items()}


@pytest.mark.parametrize("kernel", ["c", "python"])
def test_a_benchmark_is_profiled_with_all_its_messages(kernel: str) -> None:
    """20 windows of 64 messages, each with its acknowledgement of 4 bytes."""
    sizes: dict[str, Any] = {"sizes": [4096], "iterations": 20, "warm_up": 0, "kernel": kernel}
    with cluster.launch("p", hosts=2) as c:
        found = c.bench("p2p", metrics=["bandwidth"], profile="own", **sizes)
        plain = c.bench("p2p", metrics=["bandwidth"], **sizes)
    calls = only(found)
    made = profiles(found.folder / "raw")

    assert (calls[0]["MPI_Isend"], calls[1]["MPI_Irecv"]) == (1280, 1280)
    assert sums(made[0])["MPI_Isend"] == (1280, 1280 * 4096)
    assert sums(made[1])["MPI_Irecv"] == (1280, 1280 * 4096)
    assert (calls[0]["MPI_Waitall"], calls[1]["MPI_Waitall"]) == (20, 20)
    assert (calls[0]["MPI_Recv"], calls[1]["MPI_Send"]) == (20, 20)
    assert any("profiled by cluster's own" in note for note in found.record.notes)
    assert not list((plain.folder / "raw").glob("mpi_profile.*"))
    assert plain.record.variables == {}


def test_without_a_compiler_it_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMPI_CC", "/nowhere/cc")
    refused = command(
        "bench", "p2p", "--metrics=latency", "--sizes=8", "--profile", status=2
    ).stderr

    assert "0.mpi.p2p: the profiler could not be compiled" in refused
    assert "sudo apt-get install gcc libc6-dev" in refused
    assert "--profile=/path/libmpitrace.so" in refused
    assert not list(runs_folder().glob("*/*"))
    assert answer("ls") == []


def test_a_library_of_somebody_else_is_loaded_by_its_path(home: Path) -> None:
    """It stands for IBM's: compiled apart, and named."""
    library = home / "libtrace.so"
    source = Path(kernels.__file__).with_name("profile.c")
    run(str(BIN / "mpicc"), *kernels.FLAGS, str(source), "-o", str(library))
    words = ("bench", "p2p", "--metrics=latency", "--sizes=8", "--iters=20")
    made = answer(*words, f"--profile={library}")

    assert len(profiles(Path(made["run"]) / "raw")) == 2
    assert any(str(library) in note for note in made["notes"])
    refused = command(*words, "--profile=/nowhere.so", status=2).stderr
    assert "There is no /nowhere.so on 0.mpi.p2p." in refused
    spaced = library.rename(home / "lib trace.so")
    refused = command(*words, f"--profile={spaced}", status=2).stderr
    assert "takes a space or a colon for the end of a path" in refused
    refused = command(*words, "--profile=here.so", status=2).stderr
    assert "--profile=here.so is no absolute path." in refused


def test_a_preloaded_library_of_the_user_stays() -> None:
    library = ctypes.util.find_library("m")
    if library is None:
        pytest.skip("there is no library to preload")
    with cluster.launch("both") as c:
        found = c.bench(
            "p2p",
            metrics=["latency"],
            sizes=[8],
            iterations=20,
            profile="own",
            variables={"LD_PRELOAD": library},
        )

    assert found.record.variables["LD_PRELOAD"].endswith(f".so:{library}")
    assert len(profiles(found.folder / "raw")) == 2


def test_a_program_that_uses_no_mpi_leaves_no_profile_and_that_is_said() -> None:
    command("up", "mine")
    shown = command("run", "mine", "--profile", "--", "echo", "hello  there").stdout

    assert "No MPI profile was written: no rank came to MPI_Finalize." in shown
    assert (store.find(runs_folder(), "latest") / "raw" / "stdout").read_text().count(
        "hello  there"
    ) == 2
    failed = command("run", "mine", "--mpi", "--", "sh", "-c", "exit 7", status=1)
    assert "It ended with exit status 7" in failed.stderr
    command("down", "mine")


def test_a_program_that_hangs_is_stopped_with_its_ranks() -> None:
    command("up", "mine")
    failed = command("run", "mine", "--mpi", "--timeout=2", "--", "sleep", "617", status=1)

    assert "It did not end within --timeout" in failed.stderr
    until(lambda: not _sleeping("617"), "the program is gone")
    command("down", "mine")


def _sleeping(seconds: str) -> list[Any]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == b"sleep\0" + seconds.encode() + b"\0":
                found.append(path)
        except OSError:
            continue
    return found


def test_of_many_ranks_those_that_matter_write(home: Path) -> None:
    """As mpitrace: rank 0 and those with the least, the median and the most time in MPI."""
    (home / "late.py").write_text(
        "import time\nfrom mpi4py import MPI\nc = MPI.COMM_WORLD\n"
        "time.sleep(0.2 * (c.Get_rank() == 4))\nc.Barrier()\n"
    )
    library = home / "own.so"
    source = Path(kernels.__file__).with_name("profile.c")
    run(str(BIN / "mpicc"), *kernels.FLAGS, str(source), "-o", str(library))
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    words = [str(BIN / "mpirun"), *root, "--bind-to", "none", "--host", "localhost:6", "-np", "6"]
    run(*words, "env", f"LD_PRELOAD={library}", sys.executable, "late.py", cwd=home)
    found = profiles(home)

    assert {0, 4} <= set(found)
    assert len(found) <= 4
    assert found[4].roles == ("minimum",)
    assert len(found[0].tasks) == 6
    assert all(check.agrees for check in job(found).checks)
    assert job(found).findings[0].name == "share"


def test_a_profiler_is_refused_where_hosts_differ() -> None:
    class Says:
        def __init__(self, path: str) -> None:
            self.path = path

        def run(self, *_: Any, **__: Any) -> Any:
            return type("Done", (), {"status": 0, "stdout": self.path + "\n", "stderr": ""})

    place = profiling.Toolchain(folder="/x", python=("python3",))
    shells: Any = {"a": Says("/x/1.so"), "b": Says("/x/2.so")}
    with pytest.raises(SpecError, match="different MPIs"):
        profiling.variables(shells, {"a": place, "b": place}, "own", 2, {})
