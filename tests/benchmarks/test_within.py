"""Copies between the NUMA nodes, cores and GPUs of a host, and the verdict on them."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cluster
from cluster.core.errors import JobError, SpecError
from cluster.core.model.network.fleet import Fleet, PairTest
from cluster.fleet.devices import diagnose_devices
from cluster.measure.gpu import CudaCopies
from cluster.measure.within import (
    CoreCopies,
    CoreUnit,
    core_path,
    cores,
    node_distance,
    numa_nodes,
)
from cluster.orchestration.fleet_check import judge_within

TWO = {0: "0-3,8-11", 1: "4-7,12-15", 2: ""}  # sockets with four cores of two threads; CXL memory


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """What Linux says of such a host."""
    for node, cpus in TWO.items():
        folder = tmp_path / "node" / f"node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cpus}\n")
        (folder / "distance").write_text(["10 21 30", "21 10 40", "30 40 10"][node] + "\n")
    for cpu in range(16):
        core, half = cpu % 8, cpu % 8 // 4
        threads = tmp_path / "cpu" / f"cpu{cpu}" / "topology"
        threads.mkdir(parents=True)
        (threads / "thread_siblings_list").write_text(f"{core},{core + 8}\n")
        for index, (level, shared) in enumerate(((2, f"{core},{core + 8}"), (3, TWO[half]))):
            cache = tmp_path / "cpu" / f"cpu{cpu}" / "cache" / f"index{index}"
            cache.mkdir(parents=True)
            (cache / "level").write_text(f"{level}\n")
            (cache / "shared_cpu_list").write_text(f"{shared}\n")
    return tmp_path


def test_nodes_and_cores_are_those_that_may_be_used(system: Path) -> None:
    every = set(range(16))

    assert numa_nodes(every, system) == ([CoreUnit(0, 0), CoreUnit(1, 4)], [2])
    assert numa_nodes({13, 14}, system) == ([CoreUnit(1, 13)], [0, 2])
    assert [core.cpu for core in cores(every, system)] == list(range(8))
    assert cores({9, 1, 4}, system) == [CoreUnit(1, 1), CoreUnit(4, 4)]


def test_classes_are_distances_and_shared_caches(system: Path) -> None:
    near, far = CoreUnit(1, 1), CoreUnit(5, 5)

    assert core_path(CoreUnit(0, 0), near, system) == "L3"
    assert core_path(CoreUnit(0, 0), far, system) == "SYS"
    assert [node_distance(CoreUnit(0, 0), CoreUnit(n, 0), system) for n in TWO] == [
        "10",
        "21",
        "30",
    ]


def test_copies_leave_the_cores_as_they_were() -> None:
    before = os.sched_getaffinity(0)
    usable = sorted(before)
    times = CoreCopies(1 << 16).times(CoreUnit(0, usable[0]), CoreUnit(1, usable[-1]), 3)

    assert len(times) == 3
    assert min(times) > 0
    assert os.sched_getaffinity(0) == before


def test_copies_between_gpus_wait_for_both() -> None:
    """PyTorch and GPUs cannot be here: a double that knows only these calls, and their order."""
    calls: list[str] = []

    class Array:
        def __init__(self, device: str) -> None:
            self.device = device

        def copy_(self, other: Array, *, non_blocking: bool) -> None:
            assert non_blocking
            calls.append(f"{other.device} to {self.device}")

        def cpu(self) -> Array:
            return self

    def make(size: int | tuple[int], value: int = 0, *, dtype: str, device: str) -> Array:
        assert (size, dtype) in (((64,), "uint8"), (64, "uint8"))
        return Array(device)

    cuda = SimpleNamespace(synchronize=lambda gpu: calls.append(f"wait {gpu}"))
    torch = SimpleNamespace(
        full=make, zeros=make, uint8="uint8", cuda=cuda, equal=lambda *pair: len(pair) == 2
    )

    assert len(CudaCopies(torch, 0, 64).to_peer(1, 2)) == 2
    assert calls[:5] == ["wait 0", "wait 1", "cuda:0 to cuda:1", "wait 0", "wait 1"]


@pytest.mark.usefixtures("tools")
def test_this_host_says_what_there_is_to_compare() -> None:
    """It has as many cores and nodes as it has: with less than three pairs, no part is blamed."""
    with cluster.launch("within", provider="local", hosts=2) as c:
        run = c.bench("within", devices="cores", iterations=5)
        verdict = judge_within(run)
        alone = judge_within(c.bench("within", devices="numa", size=1 << 20))
        if find_spec("torch") is None:
            with pytest.raises(JobError, match="torch is missing"):
                c.bench("within", devices="gpus")
        with pytest.raises(SpecError, match="size"):
            c.bench("within", size=-1)

    count = len(cores(os.sched_getaffinity(0)))
    assert len({m.host for m in run.measurements}) == 1  # two hosts that are one: it measures once
    if count == 1:
        assert verdict.answer.startswith("UNDECIDED")
    elif count == 2:
        assert verdict.tests == 2
        assert verdict.verdict in ("HEALTHY", "UNDECIDED")
        assert verdict.blamed == ()
    assert "NUMA node" in alone.answer
    assert (run.folder / "verdict.json").is_file()


def judged(slow: dict[tuple[int, int], float], hosts: int = 2) -> Any:
    """Judge hosts of four NUMA nodes, of which some pairs reach a share."""
    names = tuple(f"h{host}/NUMA{node}" for host in range(hosts) for node in range(4))
    tests = [
        PairTest(
            round=0,
            source=4 * host + a,
            target=4 * host + b,
            value=20e9 / (1 + (a // 2 != b // 2)) * slow.get((4 * host + a, 4 * host + b), 1.0),
            path="10" if a == b else "12" if a // 2 == b // 2 else "32",
            alone=True,
        )
        for host in range(hosts)
        for a in range(4)
        for b in range(4)
    ]
    return diagnose_devices(Fleet(names=names, groups=(0,) * len(names), devices="numa"), tests)


def test_nodes_of_several_hosts_are_named_with_their_host() -> None:
    verdict = judged({(4 + a, 4 + 3): 0.6 for a in range(4)})

    assert [suspect.place.device for suspect in verdict.blamed] == ["h1/NUMA3"]
    assert judged({}).verdict == "HEALTHY"
