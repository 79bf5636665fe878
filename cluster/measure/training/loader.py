"""A loader of batches: threads fetch shards and prepare batches while the step before computes.

Shards come in the order asked for, whatever the number of threads, so a seed decides what a rank
trains on. The time that the training waits for a batch is divided by the loader's own clock: what
falls into the fetch of that batch's shard is a wait for the source, the rest one for preparation.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from queue import Empty, Queue
from threading import Event, Thread
from time import perf_counter
from typing import Any, NamedTuple

from cluster.analysis.models.step_limits import split_wait
from cluster.core.errors import ClusterError
from cluster.measure.training import digits
from cluster.measure.training.digits import Digits
from cluster.measure.training.sources import ShardSource

AHEAD = 2  # shards that a fetching thread may be ahead of the preparing one
JOINED_WITHIN = 0.02  # seconds between two looks whether a thread has ended


class Batch(NamedTuple):
    """What the training takes for one step."""

    samples: Digits  # Prepared
    fetch_wait: float  # Seconds that the training waited for the source
    preparation_wait: float  # Seconds that it waited for the preparation, or for a thread's turn


class Stages(NamedTuple):
    """What is done with a shard: it is fetched, decoded and prepared."""

    source: ShardSource
    prepare: Callable[[Digits], Digits]  # Makes a batch of some samples
    batch: int  # Samples of a batch; a shard holds a whole number of batches

    def fetch(self, name: str) -> bytes:
        try:
            return self.source.fetch(name)
        except FileNotFoundError as error:
            raise ClusterError(
                f"The shard {self.source.where(name)} is missing.",
                means="The index.json beside it says that it was written.",
                remedy="Delete the index.json; the next run writes the data again.",
            ) from error

    def decode(self, content: bytes, name: str) -> Digits:
        return digits.decoded(content, self.source.where(name))


class _Fetched(NamedTuple):
    name: str
    content: bytes
    begin: float
    end: float


class _Ready(NamedTuple):
    samples: Digits
    begin: float  # of the fetch of its shard; begin = end for a shard's later batches
    end: float
    last: bool  # of its shard


class Loader:
    """Batches in the order of the shards; `workers` threads fetch, and as many prepare, or none."""

    def __init__(self, stages: Stages, names: Sequence[str], workers: int) -> None:
        self._stages = stages
        self._stop = Event()
        self._threads: list[Thread] = []
        self._queues: list[Queue[_Ready | Exception]] = []
        self._fetching: list[Queue[_Fetched | Exception]] = []
        if workers == 0:
            self._ready = self._inline(_turns(names, 0, 1))
            return
        for number in range(workers):
            fetched: Queue[_Fetched | Exception] = Queue(AHEAD)
            ready: Queue[_Ready | Exception] = Queue(AHEAD)
            self._fetching.append(fetched)
            self._queues.append(ready)
            for target, *args in (
                (self._fetch, _turns(names, number, workers), fetched),
                (self._prepare, fetched, ready),
            ):
                self._threads.append(Thread(target=target, args=args, daemon=True))
        for thread in self._threads:
            thread.start()
        self._ready = self._in_order()

    def next(self) -> Batch:
        """Wait for the next batch (ClusterError: its shard could not be read)."""
        begin = perf_counter()
        ready = next(self._ready)
        end = perf_counter()
        fetch, rest = split_wait((begin, end), (ready.begin, ready.end))
        return Batch(ready.samples, fetch, rest)

    def close(self) -> None:
        """End the threads: those that wait for room in a queue are given some."""
        self._stop.set()
        for thread in self._threads:
            while thread.is_alive():
                for fetching in self._fetching:
                    _take_all(fetching)
                for ready in self._queues:
                    _take_all(ready)
                thread.join(JOINED_WITHIN)

    def _fetch(self, names: Iterator[str], out: Queue[_Fetched | Exception]) -> None:
        try:
            for name in names:
                if self._stop.is_set():
                    return
                begin = perf_counter()
                content = self._stages.fetch(name)
                out.put(_Fetched(name, content, begin, perf_counter()))
        except Exception as error:  # noqa: BLE001 - the training's thread raises it
            out.put(error)

    def _prepare(
        self, fetched: Queue[_Fetched | Exception], out: Queue[_Ready | Exception]
    ) -> None:
        while not self._stop.is_set():
            try:
                shard = fetched.get(timeout=JOINED_WITHIN)
            except Empty:
                continue
            if isinstance(shard, Exception):
                out.put(shard)
                return
            try:
                for ready in self._batches(shard):
                    out.put(ready)
            except Exception as error:  # noqa: BLE001
                out.put(error)
                return

    def _batches(self, shard: _Fetched) -> Iterator[_Ready]:
        """Prepare the batches of a shard; the first one waits for the fetch."""
        stages = self._stages
        samples = stages.decode(shard.content, shard.name)
        begin = shard.begin
        for start in range(0, len(samples), stages.batch):
            end = start + stages.batch
            batch = stages.prepare(samples.part(start, end))
            yield _Ready(batch, begin, shard.end, end >= len(samples))
            begin = shard.end

    def _inline(self, names: Iterator[str]) -> Iterator[_Ready]:
        for name in names:
            begin = perf_counter()
            content = self._stages.fetch(name)
            yield from self._batches(_Fetched(name, content, begin, perf_counter()))

    def _in_order(self) -> Iterator[_Ready]:
        while True:
            for queue in self._queues:
                last = False
                while not last:
                    ready = queue.get()
                    if isinstance(ready, Exception):
                        raise ready
                    last = ready.last
                    yield ready


def _turns(names: Sequence[str], first: int, each: int) -> Iterator[str]:
    """Return every `each`-th name, round and round: those that one thread fetches."""
    return (names[place % len(names)] for place in count(first, each))


def _take_all(queue: Queue[Any]) -> None:
    try:
        while True:
            queue.get_nowait()
    except Empty:
        return
