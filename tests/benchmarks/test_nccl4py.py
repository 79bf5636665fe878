"""`collectives --transport nccl4py`: without a GPU, over a strict stand-in and what is real of it.

Where nccl4py is installed, its own Python checks the calls, and only the functions of NCCL below it
are played. No test here shows that NCCL itself does what is asked: that needs GPUs.
"""

import inspect
import json
import platform
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest

import cluster
from cluster.benchmarks.collectives import Collectives, CollectivesParams
from cluster.benchmarks.collectives.operations import NAMED, timing
from cluster.core.errors import ClusterError
from cluster.core.model.results.measurements import Measurement
from cluster.core.model.results.records import NOTES_FILE
from cluster.core.text.options import convert
from cluster.measure import groups
from tests.conftest import ROOT, command, on_ranks
from tests.fakes import nccl4py
from tests.snapshots import Snapshot

OPERATIONS = [name for name in NAMED if name != "barrier"]
PLAYED = """
import sys
sys.path.insert(0, {root!r})
from tests.fakes import nccl4py
from cluster.benchmarks.collectives import Collectives
from cluster.measure.main import main
nccl4py.install()
{harm}
main(Collectives())
"""
REAL = """
import ctypes
from types import SimpleNamespace
import numpy as np
import torch
from mpi4py import MPI
from nccl.bindings import nccl as below
from nccl.core import Communicator
from cluster.benchmarks.collectives import Collectives
from cluster.measure import buffers
from cluster.measure.main import main

world, queue = MPI.COMM_WORLD, []
TYPES = {{7: np.float32, 1: np.uint8}}

class Cpu(buffers.TorchLibrary):  # torch's arrays, in memory that is here
    def __init__(self, number): self._torch, self._device = torch, "cpu"
    count = staticmethod(lambda: 9)
    def synchronise(self):
        while queue: queue.pop(0)()

def at(address, count, kind):
    size = count * np.dtype(TYPES[kind]).itemsize
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), TYPES[kind])

def later(do):
    def call(sent, got, count, kind, *rest):
        comm, stream = rest[-2:]
        assert (bool(comm), stream) == (True, 0)
        queue.append(lambda: do(sent, got, count, kind, *rest[:-2]))
    return call

def all_reduce(sent, got, count, kind, op):
    assert op == 0
    world.Allreduce(at(sent, count, kind).copy(), at(got, count, kind))

def reduce(sent, got, count, kind, op, root):
    assert op == 0
    given = at(sent, count, kind).copy()
    world.Reduce(given, at(got, count, kind) if world.rank == root else None, root=root)

def broadcast(sent, got, count, kind, root):
    assert world.rank != root or sent == got
    world.Bcast(at(got, count, kind), root=root)

def all_gather(sent, got, count, kind):
    world.Allgather(at(sent, count, kind).copy(), at(got, count * world.size, kind))

def reduce_scatter(sent, got, count, kind, op):
    assert op == 0
    given = at(sent, count * world.size, kind).copy()
    world.Reduce_scatter_block(given, at(got, count, kind))

def allto_all(sent, got, count, kind):
    given = at(sent, count * world.size, kind).copy()
    world.Alltoall(given, at(got, count * world.size, kind))

for one in (all_reduce, reduce, broadcast, all_gather, reduce_scatter, allto_all):
    assert hasattr(below, one.__name__)
    setattr(below, one.__name__, later(one))
below.get_version = lambda: 23003
below.get_library_path = lambda: "/nowhere/libnccl.so.2"
below.get_unique_id = below.UniqueId
below.comm_init_rank_scalable = lambda size, rank, ids, key, config: below.Comm(7)
below.comm_count = lambda comm: world.size
below.comm_user_rank = lambda comm: world.rank
below.comm_destroy = lambda comm: print("destroyed")
Communicator.device = property(lambda self: SimpleNamespace(device_id=None))  # of arrays here
buffers.LIBRARIES = (Cpu,)
main(Collectives())
"""


def play(program: str = PLAYED, *, harm: str = "", ranks: int = 3, status: int = 0) -> Any:
    params = {"operations": OPERATIONS, "sizes": [8, 70_000], "iterations": 5, "warm_up": 1}
    words = json.dumps({**params, "transport": "nccl4py"})
    return on_ranks(program.format(root=str(ROOT), harm=harm), words, ranks=ranks, status=status)


def read_measurements() -> list[Measurement]:
    lines = [path.read_text().splitlines() for path in sorted(Path().glob("measurements.*.jsonl"))]
    return [msgspec.json.decode(line, type=Measurement) for part in lines for line in part]


def check_all_measured(ranks: int) -> None:
    measurements = read_measurements()
    assert {(m.metric, m.rank, m.definition) for m in measurements} == {
        (name, rank, timing(NAMED[name], "nccl4py").id)
        for name in OPERATIONS
        for rank in range(ranks)
    }
    assert len(measurements) == len(OPERATIONS) * ranks * 2
    assert {len(m.values) for m in measurements} == {5}


@pytest.mark.usefixtures("tools")
def test_every_operation_is_called_as_nccl4py_wants_it_and_its_result_is_checked(
    snapshot: Snapshot,
) -> None:
    result = play(harm="nccl4py.Library.there = 3")

    check_all_measured(3)
    assert result.stdout.count("destroyed") == 3
    snapshot(Path(NOTES_FILE).read_text())


@pytest.mark.usefixtures("tools")
def test_the_real_nccl4py_accepts_every_call() -> None:
    """Its Python resolves the arrays and compares counts and types; MPI plays NCCL below it."""
    for module in ("nccl.core", "torch"):
        pytest.importorskip(module, reason="not here: pip install torch nccl4py cuda-bindings")
    result = play(REAL)

    check_all_measured(3)
    assert result.stdout.count("destroyed") == 3
    assert "2.30.3" in Path(NOTES_FILE).read_text()


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("harm", "message"),
    [
        ("nccl4py.Communicator._queue = lambda self, do: None", "arrived as"),
        ("nccl4py.Library.there = 1", "has 1 GPU(s) for 2 ranks"),
        ("nccl4py.Library.there = 0", "numpy sees none there"),
        ("nccl4py.buffers.LIBRARIES = ()", "Neither torch nor CuPy is installed"),
    ],
)
def test_a_result_that_never_came_and_missing_gpus_end_the_run(harm: str, message: str) -> None:
    result = play(harm=harm, ranks=2, status=1)

    assert message in result.stdout + result.stderr
    assert read_measurements() == []


@pytest.mark.parametrize(
    "name",
    [
        *("Communicator.__init__", "Communicator.init", "Communicator.destroy"),
        *("Communicator.allreduce", "Communicator.reduce", "Communicator.broadcast"),
        *("Communicator.allgather", "Communicator.reduce_scatter", "Communicator.alltoall"),
        *("UniqueId.__init__", "UniqueId.__bytes__", "UniqueId.from_bytes", "get_unique_id"),
    ],
)
def test_the_stand_in_has_the_signatures_of_the_real_one(name: str) -> None:
    real = pytest.importorskip("nccl.core", reason="nccl4py is not here: pip install nccl4py")

    def parameters(module: Any) -> list[tuple[str, Any, Any]]:
        member = module
        for part in name.split("."):
            member = getattr(member, part)
        return [(p.name, p.kind, p.default) for p in inspect.signature(member).parameters.values()]

    assert parameters(nccl4py) == parameters(real)
    assert int(real.SUM) == int(nccl4py.NcclRedOp.SUM)


def test_nccl_has_no_barrier_and_no_loops_in_c() -> None:
    for options, message in (
        ({"operations": ["allreduce", "barrier"]}, "NCCL has no barrier"),
        ({"kernel": "c"}, "have no loops in C"),
    ):
        params = {"transport": "nccl4py", **options}
        with pytest.raises(cluster.SpecError, match=message):
            Collectives().check(convert(params, CollectivesParams, "parameter"), 2)


@pytest.mark.parametrize("transport", ["nccl", "nccl4py"])
def test_a_host_without_gpus_is_refused_before_anything_starts(
    transport: str, tools: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.agent.commands.find_program", lambda _: None)
    output = command("bench", "collectives", f"--transport={transport}", status=2).stderr

    assert "--transport mpi" in output


def core(version: Any) -> ModuleType:
    module = ModuleType("nccl.core")
    module.get_version = lambda: SimpleNamespace(libnccl=version)  # type: ignore[attr-defined]
    return module


def test_what_is_missing_is_named_with_what_to_type(
    monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot
) -> None:
    def refusal(package: Any, module: Any) -> str:
        monkeypatch.setattr(groups, "find_spec", lambda _: package)
        outer = ModuleType("nccl")
        outer.core = module  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "nccl", outer)
        monkeypatch.setitem(sys.modules, "nccl.core", module)
        with pytest.raises(ClusterError) as error:
            groups.require_nccl4py()
        return str(error.value).replace(platform.node(), "HOST")

    snapshot(refusal(None, None))
    snapshot(refusal(object(), None))  # None: importing it raises
    snapshot(refusal(object(), core(None)))
