"""Copies by CUDA, on a double that knows only the calls that are used: nobody gave us a GPU.

The double moves bytes, and has a device with a clock of its own, so that a time of the wrong clock,
a stream that does not wait, and a copy that is lost are all seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.core.errors import ClusterError
from cluster.measure.gpu import WARM_UP, CudaCopies, CudaLaunches

SIZE = 64
COPY = 2.0  # milliseconds of the device's clock for each copy
UP = 3.0  # and for one to the host, so that a stream that does not wait for it is seen
RECORD = 0.5  # milliseconds of it between two events


class Array:
    def __init__(self, cuda: Cuda, device: str, size: int, *, pinned: bool = False) -> None:
        self.cuda, self.device, self.pinned = cuda, device, pinned
        self.bytes = bytearray(size)

    def fill_(self, value: int) -> Array:
        self.bytes[:] = bytes([value]) * len(self.bytes)
        return self

    def copy_(self, other: Array, *, non_blocking: bool = False) -> None:
        self.cuda.copied.append((other.device, self.device, other.pinned or self.pinned))
        self.cuda.blocking.append(not non_blocking)
        self.cuda.clocks[self.cuda.stream] += UP if self.device == "host" else COPY
        if not self.cuda.loses:
            self.bytes[:] = other.bytes

    def add_(self, _: int) -> None:
        self.cuda.copied.append(("kernel", self.device, False))

    def cpu(self) -> Array:
        return self


class Queue:
    """A queue of a GPU with its own time, until it waits for another."""

    def __init__(self, cuda: Cuda) -> None:
        self.cuda = cuda
        cuda.clocks[self] = max(cuda.clocks.values(), default=0.0)

    def wait_stream(self, other: Queue) -> None:
        clocks = self.cuda.clocks
        clocks[self] = max(clocks[self], clocks[other])


class Event:
    def __init__(self, cuda: Cuda) -> None:
        self.cuda, self.at = cuda, 0.0

    def record(self, stream: Queue | None = None) -> None:
        queue = stream or self.cuda.stream
        self.cuda.clocks[queue] += RECORD
        self.at = self.cuda.clocks[queue]

    def synchronize(self) -> None:
        self.cuda.waited += 1

    def elapsed_time(self, end: Event) -> float:
        return end.at - self.at


class Cuda:
    """`torch.cuda`, as far as it is used."""

    def __init__(self) -> None:
        self.clocks: dict[Any, float] = {}
        self.stream = Queue(self)
        self.copied: list[tuple[str, str, bool]] = []
        self.blocking: list[bool] = []
        self.waited = 0
        self.loses = False

    def Stream(self) -> Queue:  # noqa: N802 - as in torch
        return Queue(self)

    def Event(self, *, enable_timing: bool) -> Event:  # noqa: N802
        assert enable_timing
        return Event(self)

    def current_stream(self) -> Any:
        return self.stream

    def synchronize(self, gpu: int) -> None:
        assert gpu in (0, 1)
        self.clocks = dict.fromkeys(self.clocks, max(self.clocks.values()))
        self.waited += 1

    @contextmanager
    def device(self, gpu: int) -> Iterator[None]:
        assert gpu == 0
        yield

    def use(self, stream: Queue) -> Any:
        @contextmanager
        def context() -> Iterator[None]:
            before, self.stream = self.stream, stream
            yield
            self.stream = before

        return context()


@pytest.fixture
def cuda() -> Cuda:
    return Cuda()


@pytest.fixture
def torch(cuda: Cuda) -> Any:
    def empty(size: int, *, dtype: str, pin_memory: bool) -> Array:
        assert dtype == "uint8"
        return Array(cuda, "host", size, pinned=pin_memory)

    def full(size: tuple[int], value: int, *, dtype: str, device: str) -> Array:
        assert dtype == "uint8"
        return Array(cuda, device, *size).fill_(value)

    def zeros(size: int, *, dtype: str = "uint8", device: str) -> Array:
        return Array(cuda, device, size)

    module = SimpleNamespace(cuda=cuda, uint8="uint8", empty=empty, full=full, zeros=zeros)
    module.equal = lambda array, other: array.bytes == other.bytes
    return module


@pytest.fixture(autouse=True)
def streams(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `torch.cuda.stream(s)` be the context of a stream, while `.stream` stays the current."""
    cuda = torch.cuda
    current = cuda.stream

    class Namespace:
        def __getattr__(self, name: str) -> Any:
            return cuda.use if name == "stream" else getattr(cuda, name)

    monkeypatch.setattr(torch, "cuda", Namespace())
    assert cuda.current_stream() is current


def test_locked_memory_is_timed_by_the_clock_of_the_device(torch: Any, cuda: Cuda) -> None:
    times = CudaCopies(torch, 0, SIZE).from_host(4, pin=True)

    assert times == [pytest.approx((COPY + RECORD) / 1000)] * 4
    assert cuda.copied == [("host", "cuda:0", True)] * (WARM_UP + 4)
    assert not any(cuda.blocking)


def test_pageable_memory_is_timed_by_the_wall_clock(
    torch: Any, cuda: Cuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.measure.gpu.perf_counter", count(0, 3).__next__)
    times = CudaCopies(torch, 0, SIZE).to_host(4, pin=False)

    assert times == [3] * 4
    assert cuda.copied == [("cuda:0", "host", False)] * (WARM_UP + 4)
    assert all(cuda.blocking)


def test_both_ways_overlap_between_the_two_events(torch: Any, cuda: Cuda) -> None:
    times = CudaCopies(torch, 0, SIZE).both_ways(3)

    assert times == [pytest.approx((UP + RECORD) / 1000)] * 3  # the longer one, not both
    assert set(cuda.copied) == {("host", "cuda:0", True), ("cuda:0", "host", True)}


def test_within_and_between_gpus(torch: Any, cuda: Cuda) -> None:
    copies = CudaCopies(torch, 0, SIZE)
    assert copies.within(2) == [pytest.approx((COPY + RECORD) / 1000)] * 2
    assert len(copies.to_peer(1, 2)) == 2
    assert {(a, b) for a, b, _ in cuda.copied} == {("cuda:0", "cuda:0"), ("cuda:0", "cuda:1")}


@pytest.mark.parametrize("pinned", [True, False])
def test_a_copy_that_is_lost_is_an_error(torch: Any, cuda: Cuda, *, pinned: bool) -> None:
    cuda.loses = True
    copies = CudaCopies(torch, 0, SIZE)
    attempts: tuple[Callable[[], object], ...] = (
        lambda: copies.from_host(1, pin=pinned),
        lambda: copies.to_host(1, pin=pinned),
        lambda: copies.both_ways(1),
        lambda: copies.within(1),
        lambda: copies.to_peer(1, 1),
    )
    for times in attempts:
        with pytest.raises(ClusterError, match=r"64 B .* GPU 0"):
            times()


def test_a_launch_does_not_wait_for_its_end_and_a_round_trip_does(torch: Any, cuda: Cuda) -> None:
    launches = CudaLaunches(torch, 0)
    launches.launch(5)
    before = cuda.waited
    launches.round_trip(5)

    assert before == WARM_UP + 5
    assert cuda.waited - before == 2 * (WARM_UP + 5)
    assert launches.events(2) == [pytest.approx(RECORD / 1000)] * 2
