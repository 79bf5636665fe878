"""How busy a GPU is: what nvidia-smi prints, and what a rank makes of it."""

from time import perf_counter
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from cluster.analysis.limits.hardware import HardwareGpu, listed_gpus, peak_flops
from cluster.benchmarks.training import rounds
from cluster.benchmarks.training.rounds import ON_CPU, Utilisation
from cluster.core.model.results.measurements import Definition
from cluster.measure.gpu import BusySampler
from tests.snapshots import Snapshot


class PercentRecorder:
    """A rank that keeps what it is told."""

    def __init__(self, size: int = 1) -> None:
        self.number, self.size = 0, size
        self.notes: list[str] = []
        self.series: dict[tuple[str, str], list[float]] = {}

    def note(self, line: str) -> None:
        self.notes.append(line)

    def begin(
        self, definition: Definition, point: dict[str, str], *, unit: str, is_beside: bool
    ) -> list[float]:
        assert unit == "%"
        assert is_beside
        return self.series.setdefault((definition.metric, point["data"]), [])


def make_utilisation(
    monkeypatch: pytest.MonkeyPatch, model: str, size: int = 1
) -> tuple[PercentRecorder, Utilisation]:
    sampler = SimpleNamespace(between=lambda *_: [83.0, 85.0], close=lambda: None)
    devices: list[str] = []

    def sample(device: str) -> SimpleNamespace:
        devices.append(device)
        return sampler

    monkeypatch.setattr(rounds, "BusySampler", sample)
    properties = SimpleNamespace(name=model, uuid="5e0b")
    torch: Any = SimpleNamespace(cuda=SimpleNamespace(get_device_properties=lambda _: properties))
    rank: Any = PercentRecorder(size)
    utilisation = Utilisation(rank, torch, "cuda:0", ("resident", "memory"))
    assert devices == ["GPU-5e0b"]
    return rank, utilisation


def test_the_driver_is_heard_and_what_is_no_number_is_left_out() -> None:
    begin = perf_counter()
    sampler = BusySampler("0", ["83 %\n", "[N/A]\n", "100\n", "No devices were found\n"])
    sampler.close()

    assert sampler.between(begin, perf_counter()) == [83.0, 100.0]
    assert sampler.between(0.0, begin) == []


def test_without_the_driver_there_are_no_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.measure.gpu.find_program", lambda _: None)
    sampler = BusySampler("0")
    sampler.close()

    assert sampler.between(0.0, perf_counter()) == []


def test_a_processor_has_no_utilisation_and_says_why() -> None:
    rank: Any = PercentRecorder()
    utilisation = Utilisation(rank, None, "cpu", ("resident",))
    utilisation.record_busy("resident", 0, 1)
    utilisation.record_share("resident", 1e4, 10**6)
    utilisation.close()

    assert rank.notes == [ON_CPU]
    assert rank.series == {}


def test_a_gpu_is_busy_by_the_driver_and_used_by_the_model(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank, utilisation = make_utilisation(monkeypatch, "NVIDIA H200", size=2)
    utilisation.record_busy("memory", 0, 1)
    utilisation.record_share("memory", 1e6, 10**6)

    assert rank.series["gpu_busy", "memory"] == [83.0, 85.0]
    peak = 2 * 16896 * 1980e6
    snapshot(rank.notes[0])
    assert rank.series["model_flops_utilisation", "memory"] == [
        pytest.approx(100 * 1e12 / (2 * peak))
    ]


def test_a_gpu_without_a_listed_peak_has_no_share_of_it(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank, utilisation = make_utilisation(monkeypatch, "NVIDIA Unheard-of 1")
    utilisation.record_share("memory", 1e6, 10**6)

    assert not any(metric == "model_flops_utilisation" for metric, _ in rank.series)
    snapshot(rank.notes[0])


@pytest.mark.parametrize(
    ("model", "teraflops"),
    [
        ("Tesla P100-SXM2-16GB", 10.6),
        ("Tesla P100-PCIE-16GB", 9.3),
        ("Tesla V100-SXM2-16GB", 15.7),
        ("Tesla V100-PCIE-16GB", 14.1),
        ("Tesla T4", 8.1),
        ("NVIDIA A10", 31.2),
        ("NVIDIA A30", 10.3),
        ("NVIDIA A40", 37.4),
        ("NVIDIA RTX A6000", 38.7),
        ("NVIDIA A100-SXM4-80GB", 19.5),
        ("NVIDIA L4", 30.3),
        ("NVIDIA L40", 90.5),
        ("NVIDIA L40S", 91.6),
        ("NVIDIA RTX 6000 Ada Generation", 91.1),
        ("NVIDIA H100 PCIe", 51.2),
        ("NVIDIA H100 80GB HBM3", 66.9),
        ("NVIDIA H200", 66.9),
    ],
)
def test_peaks_are_those_that_the_data_sheets_print(model: str, teraflops: float) -> None:
    peak = peak_flops(model)

    assert peak is not None
    assert peak.rate == pytest.approx(teraflops * 1e12, abs=0.06e12)
    assert ", https://" in peak.source


def test_every_peak_has_the_address_of_its_source() -> None:
    peaks = [peak for gpu in listed_gpus().values() for peak in (gpu.memory, gpu.fp32) if peak]

    assert len(peaks) > len(listed_gpus())
    assert {peak.url.partition("://")[0] for peak in peaks} == {"https"}
    assert all(peak.source for peak in peaks)


def test_a_peak_without_an_address_is_not_used() -> None:
    rate = {"rate": "1 GB/s", "source": "somebody"}
    with pytest.raises(msgspec.ValidationError, match="url"):
        msgspec.convert({"names": ["x"], "memory": rate}, HardwareGpu)
    assert peak_flops("A800-SXM4-80GB") is None
