"""Messages in the memory of GPUs: what is done with it, without one; and with one, where it is."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import cluster
from cluster.agent.facts import host_facts
from cluster.agent.hardware import gpus
from cluster.agent.protocol import ADVICE, REASON
from cluster.benchmarks.p2p import P2P
from cluster.benchmarks.p2p.definitions import BANDWIDTH, BIDIRECTIONAL, LATENCY, ONEWAY, P2PParams
from cluster.benchmarks.p2p.exchange import PROBES
from cluster.core.model.resources import Plan
from cluster.core.model.results.measurements import Measurement
from cluster.core.model.spec import ClusterSpec
from cluster.core.text.options import convert
from cluster.measure.buffers import on_gpus
from cluster.measure.gpu import check_host
from cluster.orchestration.bench.plan import check_plan
from tests.conftest import answer, command, on_ranks, runs_folder
from tests.plain_values import plain_facts
from tests.snapshots import Snapshot

METRICS = (ONEWAY, LATENCY, BANDWIDTH, BIDIRECTIONAL)
# Stands for torch and a GPU: arrays here, of which MPI is told the addresses alone, as there.
PRETEND = """
import numpy as np
from cluster.agent.hardware import gpus
from cluster.measure import buffers
from cluster.benchmarks.p2p import P2P
from cluster.measure.main import main

class Pretend:
    module = "numpy"
    waited = 0
    made = []
    count = staticmethod(lambda: {gpus})
    def __init__(self, number): self.number = number
    def put(self, bytes_): return bytes_.copy()
    def zeros(self, size):
        self.made.append(np.zeros(size, np.uint8))
        return self.made[-1]
    def clear(self, array): array[:] = 0
    def address(self, array): return array.ctypes.data
    def equal(self, one, other): return np.array_equal(one, other)
    def fetch(self, array): return array
    def synchronise(self):
        Pretend.waited += 1
        {harm}

buffers.LIBRARIES = (Pretend,)
gpus.mpi_flags = lambda: {{"mpi_built_with_cuda_support": "{built}"}}
main(P2P())
print("waited", Pretend.waited)
"""
FACTS = plain_facts(
    mpi="Open MPI 5",
    libraries={"cupy-cuda12x": "13.6"},
    executable="/e/bin/python3",
    gpus=("Tesla T4", "Tesla T4"),
    mpi_flags={"mpi_built_with_cuda_support": "true", "opal_cuda_support": "true"},
)


def pretend(*, gpus: int = 2, harm: str = "", built: str = "true", status: int = 0) -> Any:
    program = PRETEND.format(gpus=gpus, harm=harm or "pass", built=built)
    metrics = [d.metric for d in METRICS]
    params = {"metrics": metrics, "sizes": [8, 70_000], "iterations": 5, "warm_up": 1, "window": 3}
    return on_ranks(program, json.dumps({**params, "buffer": "cuda"}), status=status)


def read_measurements() -> list[Measurement]:
    lines = [path.read_text().splitlines() for path in sorted(Path().glob("measurements.*.jsonl"))]
    return [msgspec.json.decode(line, type=Measurement) for part in lines for line in part]


def test_buffers_have_definitions_of_their_own_and_those_of_before_keep_theirs() -> None:
    assert ONEWAY.id == "p2p.oneway_time-7387dc59"  # as runs that exist have it
    assert LATENCY.id == "p2p.latency-e8030b41"
    for definition in METRICS:
        variant = on_gpus(definition)
        assert variant.id != definition.id
        assert variant.buffer == "cuda"
        assert "cudaDeviceSynchronize" in variant.what
    params = convert({"buffer": "cuda"}, P2PParams, "parameter")
    assert P2P().variants(params) == (on_gpus(LATENCY), on_gpus(BANDWIDTH))
    assert ["memory_copy" in note for note in P2P().notes(params, ())] == [True]


@pytest.mark.usefixtures("tools")
def test_every_metric_over_real_mpi_by_addresses_alone() -> None:
    """Each exchange waits for the GPU on both sides, before and after it."""
    output = pretend().stdout

    measurements = read_measurements()
    cells = {(m.metric, m.params["size"], m.rank) for m in measurements}
    pair, first = (0, 1), (0,)
    assert cells == {
        (d.metric, size, rank)
        for d, ranks in zip(METRICS, (pair, first, first, pair), strict=True)
        for size in (8, 70_000)
        for rank in ranks
    }
    assert {m.definition for m in measurements} == {on_gpus(d).id for d in METRICS}
    assert {len(m.values) for m in measurements} == {5}
    waits = [int(line.split()[1]) for line in output.splitlines() if line.startswith("waited")]
    # 6 repetitions of three metrics, before and after each; 6 round trips of two moves; where they
    # end, once, and two moves that lead on: after all places that small ones have, and after each
    # large one. Once for each metric to clear, and for each of the two patterns.
    windows, trips, clearing = 3 * 6 * 2, 6 * 2, 4
    small, large = 2 * (1 + 2), 6 * (1 + 2)
    # Round trips of the least and of the largest message estimate how long all will take.
    probes = 2 * (1 + PROBES * (2 + 1 + 2))
    assert waits == [2 * (windows + trips + clearing) + small + large + 2 + probes] * 2


@pytest.mark.usefixtures("tools")
def test_a_byte_that_a_gpu_lost_is_found() -> None:
    harm = "[array.__setitem__(5, 77) for array in self.made]"
    output = pretend(harm=harm, status=1).stderr

    assert "byte 5 arrived as 77" in output


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"gpus": 1}, "has 1 GPU(s) for 2 ranks."),
        ({"gpus": 0}, "has no GPU."),
        ({"built": "false"}, "was built without CUDA."),
    ],
)
def test_ranks_that_cannot_refuse_before_anything_is_timed(how: Any, message: str) -> None:
    """In an image, only they know; what they say becomes the reason of the run."""
    result = pretend(**how, status=1)

    reason, advice = Path(REASON).read_text().split(ADVICE)
    assert message in reason
    assert advice.splitlines()[0] in result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert read_measurements() == []


@pytest.mark.parametrize(
    ("facts", "ranks", "message"),
    [
        ({"gpus": ()}, 1, "a has no GPU"),
        ({"gpus": ("Tesla T4",)}, 2, "a has 1 GPU(s) for 2 ranks"),
        ({"libraries": {"numpy": "2"}}, 2, "--python /e/bin/python3 install torch"),
        ({"mpi_flags": {}}, 2, "The MPI on a does not report whether it has CUDA"),
        ({"mpi_flags": {gpus.BUILT: "false"}}, 2, 'options={"mpi": "PREFIX"}'),
        (
            {"mpi_flags": {gpus.BUILT: "true", gpus.ENABLED: "false"}},
            2,
            'mca={"opal_cuda_support": ',
        ),
    ],
)
def test_a_host_is_refused_with_what_to_type(
    facts: dict[str, Any], ranks: int, message: str
) -> None:
    check_host(FACTS, ranks)
    with pytest.raises(cluster.SpecError) as error:
        check_host(msgspec.structs.replace(FACTS, **facts), ranks)
    assert message in str(error.value)


def test_machines_that_are_known_to_have_none_are_refused_before_they_cost_anything(
    snapshot: Snapshot,
) -> None:
    params = convert({"buffer": "cuda"}, P2PParams, "parameter")
    spec = ClusterSpec(name="x", hosts=1, ranks_per_host=2)
    assert P2P().gpus(params, 2) == 2
    assert P2P().gpus(params, 1) == 1
    check_plan(P2P(), params, spec, Plan(lines=(), gpus=2))
    check_plan(P2P(), params, spec, Plan(lines=()))  # nobody knows
    with snapshot.raises(cluster.SpecError):
        check_plan(P2P(), params, spec, Plan(lines=(), gpus=1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"buffer": "disk"}, "There are: cpu, cuda"),
        ({"buffer": "cuda", "kernel": "c"}, "the C loops have no GPU support"),
        ({"buffer": "cuda", "metrics": "memory_copy"}, "leaves nothing to measure"),
    ],
)
def test_what_buffers_do_not_go_with(options: dict[str, object], message: str) -> None:
    with pytest.raises(cluster.SpecError) as error:
        P2P().check(convert(options, P2PParams, "parameter"), 2)
    assert message in str(error.value)


@pytest.mark.usefixtures("tools")
def test_a_host_without_a_gpu_is_refused_and_nothing_is_left() -> None:
    if host_facts().gpus:
        pytest.skip("there is a GPU here")
    output = command("bench", "p2p", "--buffer=cuda", "--sizes=8", status=2).stderr

    assert host_facts().host in output
    assert "--buffer cpu" in output
    assert answer("ls") == []
    assert not list(runs_folder().glob("*/*"))


def test_real_gpus() -> None:
    """Needs two GPUs, torch or CuPy, and an MPI with CUDA."""
    try:
        check_host(host_facts(), 2)
    except cluster.SpecError as error:
        pytest.skip(error.what)
    metrics = [d.metric for d in METRICS]
    with cluster.launch("gpus", hosts=1, ranks_per_host=2) as c:
        run = c.bench("p2p", metrics=metrics, sizes=[8, 2**20], buffer="cuda")

    assert {m.definition for m in run.measurements} == {on_gpus(d).id for d in METRICS}
