"""Bounds from the link and the clock that `gpu` saw under load, and no bound where they differ."""

import pytest

from cluster.analysis.limits.devices import with_hardware_bound
from cluster.analysis.limits.hardware import of_measured
from cluster.analysis.limits.link import Route
from cluster.analysis.limits.usual import usual
from cluster.analysis.statistics.summarize import summarize
from cluster.benchmarks.gpu import definitions
from cluster.core.model.hosts import Link
from cluster.core.model.results.measurements import Definition, Measurement, Summary
from cluster.core.model.value import Scalar
from tests.plain_values import plain_series

GIB = 1 << 30
NETWORK = Route(links=(Link(rate=1.25e9, source="of two hosts"),) * 2)  # it bounds no copy
GEN5 = 128 / 130 * 32e9 / 8 * 16  # bytes per second


def examine(slot: str = "32.0 GT/s PCIe x16", gpu: int = 0) -> list[Measurement]:
    point: dict[str, Scalar] = {"gpu": gpu, "model": "NVIDIA H200"}
    return [
        plain_series(definitions.LINK, GEN5, {**point, "slot": slot}),
        plain_series(definitions.MEMORY, 4814e9, {**point, "MHz": 3201, "bits": 6016}),
    ]


def bind(metric: Definition, seconds: float, size: int, point: dict[str, Scalar]) -> Summary:
    series = [plain_series(metric, seconds, point, size)]
    [result] = summarize(series, [metric], NETWORK)
    return with_hardware_bound(result, metric, of_measured(examine()))


def test_a_copy_to_the_gpu_is_held_against_the_link_in_use() -> None:
    point: dict[str, Scalar] = {"gpu": 0, "numa": 0, "size": GIB, "memory": "pinned"}
    result = bind(definitions.HOST_TO_GPU, GIB / 55.4e9, GIB, point)

    assert result.bound == pytest.approx(GEN5)
    assert result.share == pytest.approx(55.4e9 / GEN5)
    assert result.limit is not None
    assert result.limit.kind == "host_bus"
    assert "32.0 GT/s PCIe x16" in result.limit.source


def test_both_ways_have_twice_the_bound() -> None:
    result = bind(definitions.BOTH_WAYS, 2 * GIB / 100e9, 2 * GIB, {"gpu": 0, "size": GIB})

    assert result.bound == pytest.approx(2 * GEN5)


def test_a_copy_within_the_gpu_reads_and_writes() -> None:
    result = bind(definitions.WITHIN_GPU, 2 * GIB / 4.3e12, 2 * GIB, {"gpu": 0, "size": GIB})

    assert result.bound == pytest.approx(4814e9)
    assert result.limit is not None
    assert result.limit.kind == "gpu_memory"
    assert "6402 MT/s, 6016 bit" in result.limit.source


def test_what_is_usual_comes_from_published_results() -> None:
    hardware = of_measured(examine())
    assert hardware is not None
    point: dict[str, Scalar] = {"size": GIB, "memory": "pinned"}

    assert 0.5 < usual(definitions.HOST_TO_GPU, point, hardware).share < 1  # type: ignore[union-attr]
    assert 0.5 < usual(definitions.WITHIN_GPU, {"size": GIB}, hardware).share < 1  # type: ignore[union-attr]
    assert usual(definitions.HOST_TO_GPU, {**point, "memory": "pageable"}, hardware) is None
    assert usual(definitions.BOTH_WAYS, point, hardware) is None  # two H100s: 71% and 78%


def test_gpus_with_different_links_have_no_common_bound() -> None:
    hardware = of_measured([*examine(), *examine("16.0 GT/s PCIe x8", gpu=1)])

    assert hardware is not None
    assert hardware.bus is None
    assert hardware.memory is not None


def test_a_run_of_something_else_has_no_hardware() -> None:
    assert of_measured([]) is None
