"""Profiles of benchmarks, of chosen ranks, by libraries of others; and where one is refused."""

import ctypes.util
import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.benchmarks.p2p.exchange import PROBES
from cluster.core.errors import SpecError
from cluster.core.model.results.records import Note
from cluster.orchestration.bench import mpi_profile
from cluster.runs import store
from cluster.runs.run import Run
from tests.conftest import BIN, answer, command, run, runs_folder, until
from tests.orchestration.profiles import job, profiles, sums

pytestmark = pytest.mark.usefixtures("compiler")


def only(run: Run) -> dict[int, Counter[str]]:
    by_rank = profiles(run.folder / "raw")
    return {n: Counter({r.name: r.calls for r in p.routines}) for n, p in by_rank.items()}


@pytest.mark.parametrize("kernel", ["c", "python"])
def test_a_benchmark_is_profiled_with_all_its_messages(kernel: str) -> None:
    """20 windows of 64 messages, each with its acknowledgement of 4 bytes, after two probes."""
    sizes: dict[str, Any] = {"sizes": [4096], "iterations": 20, "warm_up": 0, "kernel": kernel}
    with cluster.launch("p", hosts=2) as c:
        run = c.bench("p2p", metrics=["bandwidth"], profile="own", **sizes)
        plain = c.bench("p2p", metrics=["bandwidth"], **sizes)
    calls = only(run)
    by_rank = profiles(run.folder / "raw")

    assert (calls[0]["MPI_Isend"], calls[1]["MPI_Irecv"]) == (1280, 1280)
    assert sums(by_rank[0])["MPI_Isend"] == (1280, 1280 * 4096)
    assert sums(by_rank[1])["MPI_Irecv"] == (1280, 1280 * 4096)
    assert (calls[0]["MPI_Waitall"], calls[1]["MPI_Waitall"]) == (20, 20)
    trips = 2 * PROBES * 2  # each probe is a round trip, and one that is not timed
    assert (calls[0]["MPI_Recv"], calls[1]["MPI_Send"]) == (20 + trips, 20 + trips)
    assert Note("profiled", ("own",)) in run.record.notes
    assert not list((plain.folder / "raw").glob("mpi_profile.*"))
    assert plain.record.variables == {}


def test_without_a_compiler_it_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMPI_CC", "/nowhere/cc")
    refused = command(
        "bench", "p2p", "--metrics=latency", "--sizes=8", "--profile", status=2
    ).stderr

    assert "0.mpi.p2p: " in refused
    assert "sudo apt-get install gcc libc6-dev" in refused
    assert "--profile=/path/libmpitrace.so" in refused
    assert not list(runs_folder().glob("*/*"))
    assert answer("ls") == []


def test_a_library_of_somebody_else_is_loaded_by_its_path(home: Path, library: Path) -> None:
    """It stands for IBM's: compiled apart, and named."""
    library = Path(shutil.copy(library, home / "libtrace.so"))
    words = ("bench", "p2p", "--metrics=latency", "--sizes=8", "--iters=20")
    result = answer(*words, f"--profile={library}")

    assert len(profiles(Path(result["run"]) / "raw")) == 2
    assert any(str(library) in note for note in result["notes"])
    refused = command(*words, "--profile=/nowhere.so", status=2).stderr
    assert "/nowhere.so " in refused
    spaced = library.rename(home / "lib trace.so")
    refused = command(*words, f"--profile={spaced}", status=2).stderr
    assert str(spaced) in refused
    refused = command(*words, "--profile=here.so", status=2).stderr
    assert "--profile=here.so " in refused


def test_a_preloaded_library_of_the_user_stays() -> None:
    library = ctypes.util.find_library("m")
    if library is None:
        pytest.skip("there is no library to preload")
    with cluster.launch("both") as c:
        run = c.bench(
            "p2p",
            metrics=["latency"],
            sizes=[8],
            iterations=20,
            profile="own",
            variables={"LD_PRELOAD": library},
        )

    assert run.record.variables["LD_PRELOAD"].endswith(f".so:{library}")
    assert len(profiles(run.folder / "raw")) == 2


def test_a_program_that_uses_no_mpi_leaves_no_profile_and_that_is_said() -> None:
    command("up", "mine")
    output = command("run", "mine", "--profile", "--", "echo", "hello  there").stdout

    assert "MPI_Finalize" in output
    assert (store.find(runs_folder(), "latest") / "raw" / "stdout").read_text().count(
        "  there"
    ) == 2
    script = "echo threads: ${OPENBLAS_NUM_THREADS-its own}; exit 7"
    failed = command("run", "mine", "--mpi", "--", "sh", "-c", script, status=1)
    assert "exit status 7" in failed.stderr
    lines = (store.find(runs_folder(), "latest") / "raw" / "stdout").read_text().splitlines()
    assert {*lines} == {"threads: its own"}  # what ranks that measure have is not for a program
    command("down", "mine")


def test_a_program_that_hangs_is_stopped_with_its_ranks() -> None:
    command("up", "mine")
    failed = command("run", "mine", "--mpi", "--timeout=2", "--", "sleep", "617", status=1)

    assert "--timeout" in failed.stderr
    until(lambda: not _sleeping("617"), "the program is gone")
    command("down", "mine")


def _sleeping(seconds: str) -> list[Any]:
    paths = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == b"sleep\0" + seconds.encode() + b"\0":
                paths.append(path)
        except OSError:
            continue
    return paths


def test_of_many_ranks_those_that_matter_write(home: Path, library: Path) -> None:
    """As mpitrace: rank 0 and those with the least, the median and the most time in MPI."""
    (home / "late.py").write_text(
        "import time\nfrom pathlib import Path\nfrom mpi4py import MPI\nc = MPI.COMM_WORLD\n"
        "Path(f'{c.Get_rank()}.ready').touch()\n"
        "while c.Get_rank() == 4 and len(list(Path().glob('*.ready'))) < 6: time.sleep(0.02)\n"
        "time.sleep(c.Get_rank() == 4)\nc.Barrier()\n"
    )
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    words = [str(BIN / "mpirun"), *root, "--bind-to", "none", "--host", "localhost:6", "-np", "6"]
    run(*words, "env", f"LD_PRELOAD={library}", sys.executable, "late.py", cwd=home)
    by_rank = profiles(home)

    assert {0, 4} <= set(by_rank)
    assert len(by_rank) <= 4
    assert by_rank[4].roles == ("minimum",)
    assert len(by_rank[0].tasks) == 6
    assert all(check.agrees for check in job(by_rank).checks)
    assert job(by_rank).findings[0].name == "share"


def test_a_profiler_is_refused_where_hosts_differ() -> None:
    class Says:
        def __init__(self, path: str) -> None:
            self.path = path

        def run(self, *_: Any, **__: Any) -> Any:
            return type("Done", (), {"status": 0, "stdout": self.path + "\n", "stderr": ""})

    place = mpi_profile.Toolchain(folder="/x", python=("python3",))
    shells: Any = {"a": Says("/x/1.so"), "b": Says("/x/2.so")}
    with pytest.raises(SpecError, match="different MPIs"):
        mpi_profile.variables(shells, {"a": place, "b": place}, "own", 2, {})
