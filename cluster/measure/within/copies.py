"""One core copies what another one wrote, or a GPU what another one has."""

import mmap
import os
from time import perf_counter
from typing import Any

import numpy as np

from cluster.measure.within.processors import CoreUnit

WARM_UP = 2  # copies between two GPUs that are not timed


class CoreCopies:
    """Memory that cores of this host write and read, of a size in bytes."""

    def __init__(self, size: int) -> None:
        self.size = size

    def times(self, reader: CoreUnit, writer: CoreUnit, count: int) -> list[float]:
        """Time copies: the reader copies what the writer wrote before, into memory of its own.

        Linux places a page on the node of the core that writes it first.
        """
        before = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, {reader.cpu})
            own = self._fresh()
            os.sched_setaffinity(0, {writer.cpu})
            other = self._fresh()
            return [self._time(own, other, reader, writer) for _ in range(count)]
        finally:
            os.sched_setaffinity(0, before)

    def _fresh(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return memory that the core of this moment has written."""
        array = np.frombuffer(mmap.mmap(-1, self.size), dtype=np.uint8)
        array[:] = 1
        return array

    def _time(
        self,
        own: np.ndarray[Any, np.dtype[np.uint8]],
        other: np.ndarray[Any, np.dtype[np.uint8]],
        reader: CoreUnit,
        writer: CoreUnit,
    ) -> float:
        os.sched_setaffinity(0, {writer.cpu})
        other[:] = 2
        os.sched_setaffinity(0, {reader.cpu})
        began = perf_counter()
        np.copyto(own, other)
        return perf_counter() - began


class TorchCopies:
    """Memory of the GPUs of this host, of a size in bytes, by PyTorch."""

    def __init__(self, torch: Any, size: int) -> None:  # noqa: ANN401 - a module
        self._torch = torch
        self._size = size

    def times(self, reader: int, writer: int, count: int) -> list[float]:
        """Time copies from the memory of the GPU `writer` to that of another."""
        torch = self._torch
        source = torch.ones(self._size, dtype=torch.uint8, device=f"cuda:{writer}")
        target = torch.zeros(self._size, dtype=torch.uint8, device=f"cuda:{reader}")
        seconds = []
        for _ in range(WARM_UP + count):
            self._wait(reader, writer)
            began = perf_counter()
            target.copy_(source)
            self._wait(reader, writer)
            seconds.append(perf_counter() - began)
        return seconds[WARM_UP:]

    def _wait(self, *gpus: int) -> None:
        for gpu in gpus:
            self._torch.cuda.synchronize(gpu)
