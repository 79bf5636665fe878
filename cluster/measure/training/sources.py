"""Where shards are kept (in memory, on a disk, in an object store), and a loader of batches.

Threads fetch shards and prepare batches while the step before computes. Shards come in the order
asked for, whatever the number of threads, so a seed decides what a rank trains on. The time that
the training waits for a batch is divided by the loader's own clock: what falls into the fetch of
that batch's shard is a wait for the source, the rest one for preparation.
"""

import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Lock, Thread
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import msgspec

from cluster.analysis.models.step_limits import split_wait
from cluster.core.errors import ClusterError
from cluster.measure.buffers import place_on_host
from cluster.measure.rank import Rank
from cluster.measure.training import digits
from cluster.measure.training.digits import Dataset, Digits

T = TypeVar("T")
TRIES = 4  # of one object
FIRST_PAUSE = 0.25  # seconds before the second try; each next one is twice as long
TIMEOUT = "20s"  # of one request
# The status has words before it: a port or a time may have its digits, too.
DENIED = re.compile(
    r"status code: 40[13]\b|InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|Unauthenticated"
)
# What S3 answers, of which the code and the message are for people.
ANSWER = re.compile(r"(<\?xml[^>]*>\s*)?<Error>.*?<Code>(.*?)</Code>\s*<Message>(.*?)</Message>.*")
NO_BUCKET = "NoSuchBucket"
ACT = re.compile(r"^.*?Error performing (\S+ \S+) in \S+ - ")  # which request it was
FOLDER = "data"  # in the job's


class ShardSource(ABC):
    """A place that has the content of shards, by name; threads may share it.

    Attributes:
        requests: How many reads were asked for, with those that failed.
        bytes: How many bytes they brought.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.bytes = 0
        self._count_lock = Lock()

    def fetch(self, name: str) -> bytes:
        """Read one file (ClusterError: it cannot be read)."""
        content = self._read(name)
        self._count(0, len(content))
        return content

    def address(self, name: str) -> str:
        """Say where a file is, for a message."""
        return name

    @abstractmethod
    def _read(self, name: str) -> bytes:
        """Read one file, and count each request."""

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Write one file (ClusterError: it cannot be written)."""

    def _count(self, requests: int, size: int = 0) -> None:
        with self._count_lock:
            self.requests += requests
            self.bytes += size


class MemorySource(ShardSource):
    def __init__(self) -> None:
        super().__init__()
        self._files: dict[str, bytes] = {}

    def _read(self, name: str) -> bytes:
        self._count(1)
        try:
            return self._files[name]
        except KeyError:
            raise FileNotFoundError(name) from None

    def write(self, name: str, content: bytes) -> None:
        self._files[name] = content


class DiskSource(ShardSource):
    """A folder of this host. Its files leave the page cache once they are read."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        with _on_disk(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def address(self, name: str) -> str:
        return f"{self.folder.absolute() / name} on {os.uname().nodename}"

    def _read(self, name: str) -> bytes:
        self._count(1)
        path = self.folder / name
        with _on_disk(path), path.open("rb", buffering=0) as file:
            content = file.read()
            # The next read is one of the disk again.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return content

    def write(self, name: str, content: bytes) -> None:
        """Write it through to the disk: pages that are not there cannot leave the cache."""
        path = self.folder / name
        part = path.with_name(f"{name}.{os.getpid()}.part")
        with _on_disk(path):
            try:
                with part.open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)


@contextmanager
def _on_disk(path: Path) -> Iterator[None]:
    """Turn a failure of the block into an error that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ClusterError(
            f"{path} on {os.uname().nodename}: {error.strerror}.",
            means="The data of the training are kept there.",
            remedy="Make room there, ask for fewer: --samples N; or choose another place: "
            "--folder DIR",
        ) from error


class StoreSource(ShardSource):
    """A bucket and prefix, such as `s3://bucket/digits`, by obstore, which repeats requests."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url.rstrip("/")
        self._store = _open_store(self.url)

    def address(self, name: str) -> str:
        return f"{self.url}/{name}"

    def _read(self, name: str) -> bytes:
        return self._retry(name, lambda: bytes(self._store.get(name).bytes()))

    def write(self, name: str, content: bytes) -> None:
        try:
            self._retry(name, lambda: self._store.put(name, content))
        except FileNotFoundError as error:
            raise self._no_bucket() from error

    def _retry(self, name: str, do: Callable[[], T]) -> T:
        pause = FIRST_PAUSE
        for number in range(1, TRIES + 1):
            self._count(1)
            try:
                return do()
            except FileNotFoundError as error:
                if NO_BUCKET in _reason(error):
                    raise self._no_bucket() from error
                raise
            except Exception as error:  # each store has errors of its own
                reason = _reason(error)
                if DENIED.search(reason):
                    raise ClusterError(
                        f"{self.url} refuses {os.uname().nodename}: {reason}",
                        means="The credentials of the ranks are wrong, or may not use this bucket.",
                        remedy="Correct ~/.aws/credentials there, or the role of the machine.",
                    ) from error
                if number == TRIES:
                    raise ClusterError(
                        f"{self.address(name)} could not be reached in {number} tries: {reason}",
                        means="The store, or the way to it, is down; what was measured until then "
                        "is kept.",
                        remedy="Look at the store, and at AWS_ENDPOINT_URL of the ranks; then run "
                        "it again.",
                    ) from error
            time.sleep(pause)
            pause *= 2
        raise AssertionError

    def _no_bucket(self) -> ClusterError:
        return ClusterError(
            f"The bucket of {self.url} does not exist.",
            means="The data are written to a bucket that is there; none is made.",
            remedy="Make it, or name another one: --source s3://BUCKET/PREFIX",
        )


def _reason(error: Exception) -> str:
    text = " ".join(str(error).partition("Debug source")[0].split())
    return ACT.sub(r"\1: ", ANSWER.sub(r"\2: \3", text))


def _open_store(url: str) -> Any:  # noqa: ANN401 - obstore has one class per cloud
    from obstore.store import from_url  # noqa: PLC0415 - optional

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    make: Any = from_url  # its options depend on the store
    options: dict[str, Any] = {
        "client_options": {"allow_http": endpoint.startswith("http:"), "timeout": TIMEOUT},
        "retry_config": {"max_retries": 0},  # we repeat and count
    }
    if url.startswith("s3:"):
        from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415 - optional

        try:
            options["credential_provider"] = Boto3CredentialProvider()
        except ValueError as error:  # it found none
            raise ClusterError(
                f"The ranks on {os.uname().nodename} have no credentials for {url}.",
                means="They look where Amazon's own tools do; the variables of your shell are not "
                "passed on, as they would end up in the record of the run.",
                remedy="Write ~/.aws/credentials there, give the machine a role, or name a file: "
                "--env AWS_CONFIG_FILE=PATH",
            ) from error
        options |= {"endpoint": endpoint} if endpoint else {}
    return make(url, **options)


def attach(rank: Rank, url: str, folder: str, real: Digits, dataset: Dataset) -> ShardSource | None:
    """Open the place of the data, and write them there unless they are there (ClusterError).

    It is `memory`, `disk` (in `folder`, by default the job's), or the URL of a store.
    """
    if url == "memory":
        return None
    source: ShardSource
    if url == "disk":
        source = DiskSource(Path(folder or FOLDER))
        writes = place_on_host(rank.comm)[0] == 0  # one rank of each host
    else:
        source = StoreSource(url)
        writes = rank.number == 0
    if writes:
        write(source, real, dataset)
    rank.barrier()
    source.requests = source.bytes = 0
    return source


def write(source: ShardSource, real: Digits, dataset: Dataset) -> None:
    """Write the shards of a dataset, and its index last, which makes it complete (ClusterError)."""
    index = msgspec.json.encode(dataset)
    with suppress(FileNotFoundError):
        if source.fetch(digits.INDEX) == index:
            return
    for number in range(dataset.shards):
        samples = digits.make_shard(real, dataset, number)
        source.write(digits.shard_name(number), digits.encode(samples))
    source.write(digits.INDEX, index)


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
                f"The shard {self.source.address(name)} is missing.",
                means="The index.json beside it says that it was written.",
                remedy="Delete the index.json; the next run writes the data again.",
            ) from error

    def decode(self, content: bytes, name: str) -> Digits:
        return digits.decode(content, self.source.address(name))


class _Shard(NamedTuple):
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
        self._fetching: list[Queue[_Shard | Exception]] = []
        if workers == 0:
            self._ready = self._inline(_turns(names, 0, 1))
            return
        for number in range(workers):
            shards: Queue[_Shard | Exception] = Queue(AHEAD)
            ready: Queue[_Ready | Exception] = Queue(AHEAD)
            self._fetching.append(shards)
            self._queues.append(ready)
            for target, *args in (
                (self._fetch, _turns(names, number, workers), shards),
                (self._prepare, shards, ready),
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

    def _fetch(self, names: Iterator[str], out: Queue[_Shard | Exception]) -> None:
        try:
            for name in names:
                if self._stop.is_set():
                    return
                begin = perf_counter()
                content = self._stages.fetch(name)
                out.put(_Shard(name, content, begin, perf_counter()))
        except Exception as error:  # noqa: BLE001 - the training's thread raises it
            out.put(error)

    def _prepare(self, shards: Queue[_Shard | Exception], out: Queue[_Ready | Exception]) -> None:
        while not self._stop.is_set():
            try:
                shard = shards.get(timeout=JOINED_WITHIN)
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

    def _batches(self, shard: _Shard) -> Iterator[_Ready]:
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
            yield from self._batches(_Shard(name, content, begin, perf_counter()))

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


def _turns(names: Sequence[str], first: int, step: int) -> Iterator[str]:
    """Return every `step`-th name, round and round: those that one thread fetches."""
    return (names[place % len(names)] for place in count(first, step))


def _take_all(queue: Queue[Any]) -> None:
    try:
        while True:
            queue.get_nowait()
    except Empty:
        return
