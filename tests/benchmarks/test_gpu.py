"""`gpu`: what it refuses without a GPU, and what its rank records with one that is played."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.agent.hardware.gpus import GpuState
from cluster.benchmarks.gpu import Gpu, host
from cluster.benchmarks.gpu.definitions import GpuParams
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Definition
from cluster.core.model.value import Scalar
from cluster.core.text.units import Sizes
from tests.conftest import command
from tests.snapshots import Snapshot


class Recorder:
    """A rank that keeps what it is told."""

    def __init__(self, size: int = 1) -> None:
        self.size, self.number = size, 0
        self.series: list[tuple[str, dict[str, Scalar], int, list[float]]] = []
        self.notes: list[str] = []

    def begin(
        self, definition: Definition, point: dict[str, Scalar], *, size: int = 0, unit: str = "s"
    ) -> list[float]:
        values: list[float] = []
        assert unit in ("s", definition.unit)
        self.series.append((definition.metric, point, size, values))
        return values

    def end(self) -> None:
        assert self.series[-1][3]

    def note(self, line: str) -> None:
        self.notes.append(line)

    def progress(self, *_: object) -> None:
        """Say nothing."""


class Copies:
    """Copies of a known length."""

    wall = 1.0

    def __init__(self, _: Any, gpu: int, size: int) -> None:
        self.gpu, self.size = gpu, size

    def from_host(self, count: int, *, pin: bool) -> list[float]:
        return [1.0 if pin else 3.0] * count

    def to_host(self, count: int, *, pin: bool) -> list[float]:
        return [1.0 if pin else 3.0] * count

    def both_ways(self, count: int) -> list[float]:
        return [1.5] * count

    def within(self, count: int) -> list[float]:
        return [0.1] * count

    def to_peer(self, peer: int, count: int) -> list[float]:
        assert peer != self.gpu
        return [0.2] * count

    def wall_clock(self, count: int) -> list[float]:
        return [self.wall] * count


class Launches:
    """Launches of a known length."""

    def __init__(self, *_: object) -> None:
        self.launch = self.round_trip = self.events = lambda count: [1e-6] * count


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    properties = SimpleNamespace(name="NVIDIA H200", memory_bus_width=6016)
    cuda = SimpleNamespace(
        device_count=lambda: 2,
        can_device_access_peer=lambda a, b: a < b,
        get_device_properties=lambda _: properties,
    )
    state = GpuState(
        index=0, uuid="GPU-a", model="NVIDIA H200", slot="32.0 GT/s PCIe x16", memory_clock=3.2e9
    )
    play = SimpleNamespace(state=state, properties=properties)
    monkeypatch.setattr(host, "_torch", lambda: SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(host, "CudaCopies", Copies)
    monkeypatch.setattr(host, "CudaLaunches", Launches)
    monkeypatch.setattr(host, "state_under_load", lambda *_: play.state)
    return play


PARAMS = GpuParams(sizes=Sizes.parse("4,8MiB"), kernels=5)


@pytest.mark.usefixtures("played")
def test_every_way_of_every_gpu_is_recorded_with_its_bytes() -> None:
    rank = Recorder()
    host.measure_host(rank, PARAMS)  # type: ignore[arg-type]
    sizes = {
        (metric, point["gpu"], point.get("to"), point.get("memory"), point.get("size")): size
        for metric, point, size, _ in rank.series
    }

    for gpu in (0, 1):
        for size in (4, 8 << 20):
            for memory in ("pinned", "pageable"):
                assert sizes["host_to_gpu", gpu, None, memory, size] == size
                assert sizes["gpu_to_host", gpu, None, memory, size] == size
            assert sizes["host_and_gpu", gpu, None, "pinned", size] == 2 * size
            assert sizes["gpu_memory_copy", gpu, None, None, size] == 2 * size
            assert sizes["gpu_to_gpu", gpu, 1 - gpu, None, size] == size
        for metric in ("kernel_launch", "kernel_round_trip", "event_gap"):
            assert (metric, gpu, None, None, None) in sizes
    assert [p["p2p"] for m, p, *_ in rank.series if m == "gpu_to_gpu"] == ["on"] * 2 + ["off"] * 2
    assert [v for m, _, _, v in rank.series if m == "gpu_memory_peak"] == [[4.8128e12]] * 2
    assert {p["numa"] for m, p, *_ in rank.series if m == "host_to_gpu"}
    assert rank.notes == []


@pytest.mark.usefixtures("played")
def test_clocks_that_disagree_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Copies, "wall", 1.03)
    rank = Recorder()
    host.measure_host(rank, PARAMS)  # type: ignore[arg-type]

    assert "3%" in rank.notes[0]


def test_a_link_and_a_clock_that_nobody_tells_leave_no_bound(
    snapshot: Snapshot, played: SimpleNamespace
) -> None:
    played.state = None
    rank = Recorder()
    host.measure_host(rank, PARAMS)  # type: ignore[arg-type]

    assert not {m for m, *_ in rank.series} & {"pcie_link", "gpu_memory_peak"}
    snapshot(rank.notes[0])


def test_counts_that_cannot_be_are_refused(snapshot: Snapshot) -> None:
    for wrong in (GpuParams(iterations=-1), GpuParams(kernels=0)):
        with snapshot.raises(SpecError):
            Gpu().check(wrong, 1)


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("gpu",), "or name one: --provider ssh --option hosts=HOST"),
        (("training", "--device=cuda"), "or the processors: --device cpu"),
    ],
)
def test_a_host_without_a_gpu_is_refused_before_anything_is_installed(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], advice: str
) -> None:
    """An index that answers nothing shows that nothing was asked of one."""
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    monkeypatch.setattr("cluster.agent.commands.find_program", lambda _: None)
    output = command("bench", *words, "--run-local", "--hosts=1", status=2).stderr

    assert advice in output
    assert "installed" not in output
