"""Where shards are kept: in memory, on a disk, in an object store."""

import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import msgspec

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

    def where(self, name: str) -> str:
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
        _on_disk(folder, lambda: folder.mkdir(parents=True, exist_ok=True))

    def where(self, name: str) -> str:
        return f"{self.folder.absolute() / name} on {os.uname().nodename}"

    def _read(self, name: str) -> bytes:
        self._count(1)
        return _on_disk(self.folder / name, lambda: _cold(self.folder / name))

    def write(self, name: str, content: bytes) -> None:
        """Write it through to the disk: pages that are not there cannot leave the cache."""
        _on_disk(self.folder / name, lambda: _through(self.folder / name, content))


def _cold(path: Path) -> bytes:
    """Read a file, and let its pages go, so that the next read is one of the disk again."""
    with path.open("rb", buffering=0) as file:
        content = file.read()
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return content


def _through(path: Path, content: bytes) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _on_disk(path: Path, do: Callable[[], T]) -> T:
    """Do something with a file, and turn a failure into an error that names it."""
    try:
        return do()
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
        self._store = _opened(self.url)

    def where(self, name: str) -> str:
        return f"{self.url}/{name}"

    def _read(self, name: str) -> bytes:
        return self._repeated(name, lambda: bytes(self._store.get(name).bytes()))

    def write(self, name: str, content: bytes) -> None:
        try:
            self._repeated(name, lambda: self._store.put(name, content))
        except FileNotFoundError as error:
            raise self._no_bucket() from error

    def _repeated(self, name: str, do: Callable[[], T]) -> T:
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
                if number == TRIES or DENIED.search(reason):
                    raise self._failed(name, reason, number) from error
            time.sleep(pause)
            pause *= 2
        raise AssertionError

    def _no_bucket(self) -> ClusterError:
        return ClusterError(
            f"The bucket of {self.url} does not exist.",
            means="The data are written to a bucket that is there; none is made.",
            remedy="Make it, or name another one: --source s3://BUCKET/PREFIX",
        )

    def _failed(self, name: str, why: str, tries: int) -> ClusterError:
        if DENIED.search(why):
            return ClusterError(
                f"{self.url} refuses {os.uname().nodename}: {why}",
                means="The credentials of the ranks are wrong, or may not use this bucket.",
                remedy="Correct ~/.aws/credentials there, or the role of the machine.",
            )
        return ClusterError(
            f"{self.where(name)} could not be reached in {tries} tries: {why}",
            means="The store, or the way to it, is down; what was measured until then is kept.",
            remedy="Look at the store, and at AWS_ENDPOINT_URL of the ranks; then run it again.",
        )


def _reason(error: Exception) -> str:
    text = " ".join(str(error).partition("Debug source")[0].split())
    return ACT.sub(r"\1: ", ANSWER.sub(r"\2: \3", text))


def _opened(url: str) -> Any:  # noqa: ANN401 - obstore has one class per cloud
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


def opened(
    rank: Rank, where: str, folder: str, real: Digits, dataset: Dataset
) -> ShardSource | None:
    """Open the place of the data, and write them there unless they are there (ClusterError).

    It is `memory`, `disk` (in `folder`, by default the job's), or the URL of a store.
    """
    if where == "memory":
        return None
    source: ShardSource
    if where == "disk":
        source = DiskSource(Path(folder or FOLDER))
        writes = place_on_host(rank.comm)[0] == 0  # one rank of each host
    else:
        source = StoreSource(where)
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
        samples = digits.augmented(real, dataset, number)
        source.write(digits.shard_name(number), digits.encoded(samples))
    source.write(digits.INDEX, index)
