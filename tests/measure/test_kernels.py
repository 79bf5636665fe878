"""Timed loops in C do what is defined, a run says whether they ran, and nothing needs them."""

import ctypes
import json
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.benchmarks.p2p.definitions import BANDWIDTH, LATENCY
from cluster.measure import kernels
from cluster.measure.kernels import definitions_for, timed_in_c
from cluster.runs.run import Run
from tests.conftest import BIN, answer, command, on_ranks, run
from tests.snapshots import Snapshot

SOURCES = Path(kernels.__file__).parent


def compiled(home: Path, name: str, source: str) -> Path:
    (home / f"{name}.c").write_text(source)
    target = home / f"{name}.so"
    run(
        str(BIN / "mpicc"), *kernels.FLAGS, f"-I{SOURCES}", f"{name}.c", "-o", str(target), cwd=home
    )
    return target


def only_definition(run: Run) -> Any:
    [(key, definition)] = run.record.definitions.items()
    assert {m.definition for m in run.measurements} == {key}
    return definition


def test_a_metric_timed_in_c_has_a_definition_of_its_own() -> None:
    assert timed_in_c(LATENCY).id != LATENCY.id
    assert timed_in_c(LATENCY).kernel == "C"
    assert "clock_gettime" in timed_in_c(LATENCY).clock
    pair = (LATENCY, BANDWIDTH)
    assert definitions_for(pair, "python") == pair
    assert definitions_for(pair, "c") == (timed_in_c(LATENCY), timed_in_c(BANDWIDTH))
    assert definitions_for(pair, "auto") == (timed_in_c(LATENCY), timed_in_c(BANDWIDTH), *pair)


@pytest.mark.usefixtures("compiler")
def test_c_runs_where_it_can_and_the_run_says_how_it_was_made() -> None:
    with cluster.launch("which", hosts=2) as c:
        first = c.bench("p2p", metrics=["latency"], sizes=[8], iterations=20)
        second = c.bench("p2p", metrics=["latency"], sizes=[8], iterations=20)
        python = c.bench("p2p", metrics=["latency"], sizes=[8], iterations=20, kernel="python")
        libraries = list(Path(c.machines[0].folder, kernels.FOLDER).glob("*.so"))

    assert only_definition(first) == only_definition(second) == timed_in_c(LATENCY)
    assert only_definition(python) == LATENCY
    assert len(libraries) == 1
    for result in (first, second):
        line, version, *_ = (result.folder / "raw" / "kernel.0.log").read_text().splitlines()
        assert "mpicc -O2" in line
        assert version
        assert result.record.notes == python.record.notes == ()


@pytest.mark.usefixtures("compiler")
def test_without_a_compiler_python_does_it_and_the_run_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMPI_CC", "/nowhere/cc")
    words = ("bench", "p2p", "--metrics=latency", "--sizes=8", "--iters=20")
    output = answer(*words)
    record = json.loads((Path(output["run"]) / "run.json").read_text())

    assert list(record["definitions"]) == [LATENCY.id]
    [note] = output["notes"]
    assert "/nowhere/cc" in note
    message = command(*words, "--kernel=c", status=1).stderr
    assert "--kernel python" in message


@pytest.mark.usefixtures("compiler")
def test_a_kernel_that_cannot_be_compiled_says_the_first_error(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "kernel.h").write_text("")
    (home / "broken.c").write_text("int f(void) { return nowhere; }\n")
    monkeypatch.setattr(kernels, "__file__", str(home / "__init__.py"))
    with pytest.raises(kernels.NotBuiltError, match=r"error: .nowhere. undeclared"):
        kernels._compile(
            [str(BIN / "mpicc"), *kernels.FLAGS, str(home / "broken.c")],
            home / "broken.so",
            home / "broken.log",
        )
    assert not list(home.glob("*.so"))


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("size", [0, 4])
def test_a_library_for_another_mpi_is_refused(snapshot: Snapshot, home: Path, size: int) -> None:
    """One that is not up for it, and one whose communicators are of another size."""
    path = compiled(home, "other", f"int kernel_handle(void) {{ return {size}; }}\n")
    assert ctypes.CDLL(str(path)).kernel_handle() == size
    program = (
        "from pathlib import Path; from mpi4py import MPI; from cluster.measure import kernels\n"
        f"try: kernels._open_library(Path({str(path)!r}))\n"
        "except kernels.NotBuiltError as error: print(error)"
    )
    snapshot(on_ranks(program, ranks=1).stdout)


EXCHANGE = """
import ctypes
from mpi4py import MPI
from cluster.core.text.options import convert
from cluster.benchmarks.p2p.loops import CompiledPairLoops
from cluster.benchmarks.p2p.definitions import LATENCY
from cluster.benchmarks.p2p.loops import Messages, PairMemory
from cluster.benchmarks.p2p.definitions import P2PParams
from cluster.measure.buffers import CpuMemory
params = convert({{"sizes": [64]}}, P2PParams, "parameter")
data = PairMemory(MPI.COMM_WORLD.Dup(), params, CpuMemory())
loops = CompiledPairLoops(data, ctypes.CDLL({library!r}))
repeat = loops.loop(LATENCY, Messages(data, LATENCY, 64))
try:
    for value in repeat(5) + repeat(5): print(value)
except Exception as error:
    print(type(error).__name__, error, flush=True)
    MPI.COMM_WORLD.Abort(3)
"""


@pytest.mark.serial  # it measures speed
@pytest.mark.usefixtures("compiler")
def test_latency_in_c_is_half_of_the_round_trip(home: Path) -> None:
    """The peer sleeps 20 ms before it answers: so the latency is 10 ms and a little."""
    source = (SOURCES / "p2p.c").read_text()
    before = (
        "        receive(p, p->number + i, p->count);\n"
        "        send(p, p->number + i, p->count);\n    }\n"
    )
    assert source.count(before) == 1
    sleeps = before.replace(
        "        send", "        nanosleep(&(struct timespec){0, 20000000}, 0);\n        send"
    )
    path = compiled(home, "slow", source.replace(before, sleeps))

    values = [float(word) for word in on_ranks(EXCHANGE.format(library=str(path))).stdout.split()]
    assert len(values) == 10
    assert 0.010 <= min(values) < 0.019


@pytest.mark.usefixtures("compiler")
def test_in_c_too_a_message_that_lands_nowhere_is_seen(home: Path) -> None:
    """What is left of an earlier message is not taken for the one that did not arrive."""
    source = (SOURCES / "p2p.c").read_text()
    right = "MPI_Recv(place(p, number), "
    assert source.count(right) == 1
    elsewhere = "static char lost[64];\n" + source.replace(
        right, "MPI_Recv(p->number > 0 && number == p->number + 1 ? lost : place(p, number), "
    )
    path = compiled(home, "elsewhere", elsewhere)

    output = on_ranks(EXCHANGE.format(library=str(path)), status=3).stdout
    assert "WrongDataError latency of 64 B: byte 0 " in output


@pytest.mark.usefixtures("tools")
def test_a_message_may_be_larger_than_an_int_can_count() -> None:
    program = (
        "from cluster.benchmarks.p2p.loops import _count_and_type\n"
        "for size in (2**31 - 1, 2**31, 4 * 10**9):\n"
        "    count, kind = _count_and_type(size); assert count * kind.Get_size() == size, size\n"
    )
    on_ranks(program, ranks=1)
