"""The benchmark collectives: what it defines, checks, and refuses."""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import cluster
from cluster.benchmarks.collectives import Collectives, CollectivesParams
from cluster.benchmarks.collectives.operations import NAMED, OPERATIONS, Transport, timing
from cluster.core.text.options import convert
from cluster.measure import kernels
from cluster.measure.kernels import timed_in_c
from tests.conftest import LONG, ROOT, answer, command, run, run_script
from tests.one_file import one_file
from tests.snapshots import Snapshot

OF_C = pytest.mark.skipif(
    shutil.which("cc") is None, reason="there is no C compiler: apt-get install gcc"
)
KERNELS = [pytest.param("c", marks=OF_C), "python"]


def test_every_transport_and_loop_has_definitions_of_its_own() -> None:
    definitions = [timing(op, transport) for op in OPERATIONS for transport in get_args(Transport)]
    definitions += [timed_in_c(timing(op)) for op in OPERATIONS]

    assert len({definition.id for definition in definitions}) == len(OPERATIONS) * 5
    assert {definition.aggregation for definition in definitions} == {"slowest rank"}


@pytest.mark.parametrize(
    ("name", "size", "ranks", "real"),
    [
        ("allreduce", 8, 3, 8),
        ("allreduce", 1, 3, 4),
        ("allreduce", 11, 3, 8),
        ("allgather", 8, 3, 6),
        ("reduce_scatter", 8, 3, 12),
        ("reduce_scatter", 100, 3, 96),
        ("alltoall", 2, 4, 4),
        ("bcast", 7, 3, 7),
    ],
)
def test_sizes_are_those_that_can_be_divided(name: str, size: int, ranks: int, real: int) -> None:
    assert NAMED[name].real(size, ranks) == real


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"operations": "scan"}, "There are: allreduce, allgather, reduce_scatter, bcast"),
        ({"operations": []}, "There are no operations"),
        ({"sizes": []}, "There are no sizes"),
        ({"sizes": "2GiB"}, "it must be below 2 GiB"),
        ({"iterations": 0}, "iterations is 0"),
        ({"until_precise": True, "iterations": 9}, "iterations and until_precise"),
        ({"transport": "gloo", "kernel": "c"}, "torch and NCCL have no loops in C"),
    ],
)
def test_what_cannot_be_measured_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(cluster.SpecError) as error:
        Collectives().check(convert(options, CollectivesParams, "parameter"), 2)
    assert message in str(error.value)


def test_one_rank_is_refused(snapshot: Snapshot) -> None:
    with snapshot.raises(cluster.SpecError):
        Collectives().check(CollectivesParams(), 1)


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("kernel", KERNELS)
def test_all_operations_over_three_ranks(kernel: str) -> None:
    """Each result is checked on each rank; odd numbers of ranks divide no power of two."""
    with cluster.launch("coll", hosts=3) as c:
        run = c.bench(
            "collectives",
            operations=list(NAMED),
            sizes=[8, 100_000],
            iterations=7,
            warm_up=1,
            kernel=kernel,
        )

    shapes = {
        (m.metric, m.params.get("size"), m.params["ranks"], m.bytes) for m in run.measurements
    }
    assert shapes == {
        (op.name, size or None, 3, size)
        for op in OPERATIONS
        for size in ([0] if op.name == "barrier" else [op.real(8, 3), op.real(100_000, 3)])
    }
    assert {(m.metric, m.rank) for m in run.measurements} == {
        (op.name, rank) for op in OPERATIONS for rank in range(3)
    }
    assert {len(m.values) for m in run.measurements} == {7}
    kinds = {run.record.definitions[m.definition].kernel for m in run.measurements}
    assert kinds == {"C" if kernel == "c" else ""}
    by_metric = {(s.metric, s.params.get("size")): s for s in run.summary()}
    time, bus = by_metric["allreduce", 100_000], by_metric["allreduce_busbw", 100_000]
    assert bus.median == pytest.approx(100_000 / time.median * 4 / 3)


@pytest.mark.usefixtures("tools")
def test_until_precise_agrees_on_all_ranks() -> None:
    with cluster.launch("agree", hosts=2) as c:
        run = c.bench("collectives", sizes=[8], until_precise=True, max_iterations=400, warm_up=5)

    assert len({len(m.values) for m in run.measurements}) == 1
    assert 20 <= run.summary()[0].n <= 400


WRONG = {
    "c": (
        "        collect, nanoseconds = self._collect, self._nanoseconds\n",
        """\
        cell.expected = tuple(None if wanted is None else wanted.copy() for wanted in cell.expected)
        if cell.expected[0] is not None:
            cell.expected[0].view("uint8")[5] ^= 4
""",
    ),
    "python": (
        "                seconds.append((clock() - start) / 1e9)\n",
        """\
                if cell.number == 3 and cell.expected[0] is not None:
                    cell.result.view("uint8")[5] ^= 4
""",
    ),
}
# What is to come depends on the operation, and who compares it on the loop: with --long, each
# operation is run with both loops.
OPERATIONS_AND_LOOPS = [
    pytest.param(name, kernel, marks=OF_C if kernel == "c" else ())
    for number, name in enumerate(o.name for o in OPERATIONS if o.name != "barrier")
    for shift, kernel in enumerate(WRONG)
    if LONG or (number + shift) % 2 == 0
]


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(("name", "kernel"), OPERATIONS_AND_LOOPS)
def test_a_wrong_byte_fails_the_run(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str, kernel: str
) -> None:
    """The real benchmark, with one bit turned over in what came, or was to come."""
    after, added = WRONG[kernel]
    folder = home / "plugins" / "benchmarks"
    folder.mkdir(parents=True)
    (folder / "altered.py").write_text(one_file("collectives", "loops", after, after + added))
    monkeypatch.setenv("CLUSTER_PLUGINS", str(home / "plugins"))

    words = (f"--operations={name}", "--sizes=2000", "--iters=10", f"--kernel={kernel}")
    output = command("bench", "altered", *words, status=1).stderr
    assert f"WrongDataError: {name} 2 kB" in output


@OF_C
@pytest.mark.usefixtures("tools")
def test_each_operation_of_c_is_the_one_that_is_named() -> None:
    """The order of `enum operation` is that of OPERATIONS."""
    source = (Path(kernels.__file__).parent / "collectives.c").read_text()
    [names] = re.findall(r"enum operation \{ ([A-Z_, ]+) \};", source)

    assert names.lower().split(", ") == [op.name for op in OPERATIONS]


def has_torch() -> bool:
    result = run(sys.executable, "-c", "import torch.distributed", status=None)
    return result.returncode == 0


@pytest.mark.usefixtures("tools")
def test_torch_is_asked_for_where_it_is_missing() -> None:
    if has_torch():
        pytest.skip("torch is here")
    output = command("bench", "collectives", "--transport=gloo", "--sizes=8", status=1).stderr
    assert "torch" in output
    assert "Traceback" not in output
    assert "torch" in answer("show", "collectives")["reason"]


@pytest.mark.usefixtures("tools")
def test_all_operations_by_torch() -> None:
    if not has_torch():
        pytest.skip("torch is not here: pip install torch")
    with cluster.launch("gloo", hosts=2) as c:
        run = c.bench(
            "collectives", operations=list(NAMED), transport="gloo", sizes=[8, 4096], iterations=6
        )

    assert {m.metric for m in run.measurements} == set(NAMED)
    assert [m for m in run.record.definitions.values() if "gloo" not in m.what] == []
    assert re.match(r"torch \d.* gloo", str(run.record.notes[-1]))


@pytest.mark.usefixtures("tools")
def test_the_launcher_of_allreduce() -> None:
    script = str(ROOT / "launchers" / "launch_allreduce.py")
    result = run_script(script, "--run-local", "--data-mb=1", "--iters=6")

    assert "tmux a -t allreduce\n" in result.stdout
    assert re.search(r"allreduce_busbw +1 MB, ranks 2 +6 ", result.stdout)
    report: dict[str, Any] = answer("show", "allreduce")
    assert [s["metric"] for s in report["summaries"]] == [
        *("allreduce", "allreduce_algbw", "allreduce_busbw")
    ]
    run_script(script, "--run-local", "--transport=pigeon", status=2)
    assert msgspec.json.encode(report)
    assert os.environ["CLUSTER_RUNS"] in report["run"]
