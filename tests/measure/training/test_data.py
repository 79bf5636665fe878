"""Digits in sources, the places where they are kept, and the loader: none of it needs torch."""

import errno
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from cluster.core.errors import ClusterError
from cluster.measure.training import digits, sources
from cluster.measure.training.digits import Dataset, Digits
from cluster.measure.training.sources import (
    DiskSource,
    Loader,
    MemorySource,
    ShardSource,
    Stages,
    StoreSource,
)
from tests.conftest import PATIENCE
from tests.snapshots import Snapshot

DATASET = Dataset(samples=96, shard=32, seed=3)
NAMES = [digits.shard_name(n) for n in range(DATASET.shards)]


@pytest.fixture
def real() -> Digits:
    """Images of the form that scikit-learn gives, which need not be here."""
    chance = np.random.default_rng(0)
    images = chance.integers(0, 17, (40, 8, 8)).astype(np.float32)
    return Digits(images=images, labels=np.arange(40, dtype=np.int64) % 10)


def stages(source: ShardSource, prepare: Callable[[Digits], Digits] = digits.normalise) -> Stages:
    return Stages(source, prepare, 16)


def write_shards(source: ShardSource, real: Digits) -> ShardSource:
    sources.write(source, real, DATASET)
    return source


def test_a_seed_gives_the_same_bytes_and_another_seed_others(real: Digits) -> None:
    def content(seed: int, number: int) -> bytes:
        dataset = Dataset(samples=96, shard=32, seed=seed)
        return digits.encode(digits.make_shard(real, dataset, number))

    assert content(3, 1) == content(3, 1)
    assert len({content(3, 0), content(3, 1), content(4, 0)}) == 3


def test_samples_are_real_images_shifted_by_a_pixel_at_most(real: Digits) -> None:
    samples = digits.make_shard(real, DATASET, 0)
    padded = np.pad(real.images[:32], ((0, 0), (1, 1), (1, 1)))
    for number, image in enumerate(samples.images):
        errors = [
            np.abs(image - padded[number, y : y + 8, x : x + 8]).mean()
            for y in range(3)
            for x in range(3)
        ]
        assert min(errors) < 0.6  # the noise

    assert (samples.labels == real.labels[:32]).all()


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_batches_come_in_the_order_of_the_shards_whatever_the_workers(
    real: Digits, workers: int
) -> None:
    loader = Loader(stages(write_shards(MemorySource(), real)), NAMES, workers)
    batches = [loader.next().samples for _ in range(8)]  # six are all: then the first again
    loader.close()
    alone = Loader(stages(write_shards(MemorySource(), real)), NAMES, 0)

    for samples in batches:
        expected = alone.next().samples
        assert (samples.images == expected.images).all()
        assert (samples.labels == expected.labels).all()


class Training:
    """A clock that knows how often the training's own thread read it: twice for each batch."""

    def __init__(self) -> None:
        self.thread = threading.current_thread()
        self.readings = 0
        self.changed = threading.Condition()

    def now(self) -> float:
        now = time.perf_counter()
        if threading.current_thread() is self.thread:
            with self.changed:
                self.readings += 1
                self.changed.notify_all()
        return now

    def until_it_waits_for(self, batch: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.readings > 2 * batch, PATIENCE)


def test_a_wait_for_the_source_is_a_fetch_and_one_for_decoding_is_preparation(
    real: Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training()
    monkeypatch.setattr(sources, "perf_counter", training.now)
    batches = count()

    class Slow(MemorySource):
        def _read(self, name: str) -> bytes:
            training.until_it_waits_for(batch=0)
            time.sleep(0.1)
            return super()._read(name)

    def prepared(samples: Digits) -> Digits:
        training.until_it_waits_for(min(next(batches), 1))
        time.sleep(0.05)
        return digits.normalise(samples)

    source = Slow()
    for number in range(DATASET.shards):
        source.write(NAMES[number], digits.encode(digits.make_shard(real, DATASET, number)))
    loader = Loader(stages(source, prepared), NAMES, 1)
    first, second = loader.next(), loader.next()
    loader.close()

    assert first.fetch_wait >= 0.1
    assert first.preparation_wait >= 0.05
    assert second.fetch_wait == 0
    assert second.preparation_wait >= 0.05


def test_a_loader_ends_its_threads_also_when_nobody_takes_its_batches(real: Digits) -> None:
    before = threading.active_count()
    loader = Loader(stages(write_shards(MemorySource(), real)), NAMES, 2)
    loader.close()

    assert threading.active_count() == before


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("cut", [slice(0, 900), slice(0, 0)])
def test_a_corrupt_shard_is_named(real: Digits, workers: int, cut: slice) -> None:
    source = write_shards(MemorySource(), real)
    source.write(NAMES[1], source.fetch(NAMES[1])[cut])
    loader = Loader(stages(source), NAMES, workers)
    with pytest.raises(ClusterError, match=r"000001\.npz"):
        all(loader.next() for _ in count())
    loader.close()


def test_a_corrupt_shard_is_named_with_its_place(real: Digits, tmp_path: Path) -> None:
    source = write_shards(DiskSource(tmp_path), real)
    (tmp_path / NAMES[0]).write_bytes(b"no shard")
    with pytest.raises(ClusterError, match=f"{tmp_path}/000000.npz"):
        Loader(stages(source), NAMES, 0).next()


def test_a_flipped_bit_is_found_by_the_checksum(real: Digits) -> None:
    content = bytearray(digits.encode(digits.make_shard(real, DATASET, 0)))
    content[len(content) // 2] ^= 1
    with pytest.raises(ClusterError, match="CRC"):
        digits.decode(bytes(content), "there")


def test_data_are_written_once_and_again_if_they_are_others(real: Digits, tmp_path: Path) -> None:
    source = DiskSource(tmp_path / "data")
    sources.write(source, real, DATASET)
    first = (tmp_path / "data" / NAMES[0]).stat().st_ino
    sources.write(source, real, DATASET)
    second = (tmp_path / "data" / NAMES[0]).stat().st_ino
    sources.write(source, real, Dataset(samples=96, shard=32, seed=4))

    assert first == second != (tmp_path / "data" / NAMES[0]).stat().st_ino


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    source = DiskSource(tmp_path)
    previous = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, previous[1]))  # Python ignores SIGXFSZ
    try:
        with pytest.raises(ClusterError, match=os.strerror(errno.EFBIG)) as error:
            source.write("x.npz", bytes(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, previous)

    assert "samples=N" in str(error.value)
    assert not list(tmp_path.glob("x*"))


class FaultyStore(BaseHTTPRequestHandler):
    """S3 for reading, which answers the first requests with a status, or closes the connection."""

    failures: ClassVar[list[int]] = []
    answer = b"<Error></Error>"

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def do_GET(self) -> None:
        status = self.failures.pop(0) if self.failures else 200
        if status == 0:
            self.connection.close()
            return
        body = b"content" if status == 200 else self.answer
        self.send_response(status)
        for header in (
            ("Content-Length", str(len(body))),
            ("Last-Modified", "Mon, 23 Nov 2026 12:00:00 GMT"),
            ("ETag", '"1"'),
        ):
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StoreSource]:
    pytest.importorskip("obstore", reason="obstore is missing: pip install 'cluster-ruler[stores]'")
    pytest.importorskip("boto3", reason="boto3 is missing: pip install 'cluster-ruler[aws]'")
    config = tmp_path / "aws"
    config.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    server = ThreadingHTTPServer(("127.0.0.1", 0), FaultyStore)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr("cluster.measure.training.sources.FIRST_PAUSE", 0.01)
    yield StoreSource("s3://digits/a")
    server.shutdown()
    server.server_close()


def test_a_request_that_fails_is_repeated_and_counted(
    store: StoreSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FaultyStore, "failures", [500, 0, 503])

    assert store.fetch("x") == b"content"
    assert (store.requests, store.bytes) == (4, 7)


def test_a_store_that_stays_away_is_told_after_some_tries(
    store: StoreSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FaultyStore, "failures", [500] * 9)
    with pytest.raises(ClusterError, match=r"s3://digits/a/x .* 4 tries"):
        store.fetch("x")


def test_digits_of_a_port_or_a_time_are_no_status(
    store: StoreSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = "GET http://127.0.0.1:40301/digits/a/x in 4.614037ms - status code: 500"
    monkeypatch.setattr(sources, "_reason", lambda _: answer)
    monkeypatch.setattr(FaultyStore, "failures", [500] * 9)

    with pytest.raises(ClusterError, match="4 tries"):
        store.fetch("x")


def test_wrong_credentials_are_told_at_once(
    store: StoreSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FaultyStore, "failures", [403] * 9)
    with pytest.raises(ClusterError, match=r"s3://digits/a refuses") as error:
        store.fetch("x")

    assert store.requests == 1
    assert store.address("x") == "s3://digits/a/x"
    assert "~/.aws/credentials" in str(error.value)


def test_no_credentials_are_told_with_where_to_put_them(
    store: StoreSource, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "empty").touch()
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "empty"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "empty"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ClusterError, match="s3://digits/a"):
        StoreSource(store.url)


def test_of_a_stores_answer_only_its_words_are_shown(
    store: StoreSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FaultyStore, "failures", [403])
    answer = "<Error><Code>NoKey</Code><Message>No such key of yours.</Message><HostId>9G</HostId>"
    monkeypatch.setattr(FaultyStore, "answer", f'<?xml version="1.0"?>\n{answer}</Error>'.encode())
    with pytest.raises(
        ClusterError,
        match=r"refuses \w+: GET http\S+: .* 403 Forbidden: NoKey: No such .* yours\.\n",
    ):
        store.fetch("x")


def test_a_bucket_that_is_not_there_is_told(
    snapshot: Snapshot, store: StoreSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = b"<Error><Code>NoSuchBucket</Code><Message>It does not exist</Message></Error>"
    monkeypatch.setattr(FaultyStore, "answer", answer)
    for act in (lambda: store.fetch("x"), lambda: store.write("x", b"content")):
        monkeypatch.setattr(FaultyStore, "failures", [404])
        with snapshot.raises(ClusterError):
            act()


def test_a_shard_that_is_gone_is_named(real: Digits, tmp_path: Path) -> None:
    source = write_shards(DiskSource(tmp_path), real)
    (tmp_path / NAMES[1]).unlink()

    with pytest.raises(ClusterError, match=r"000001\.npz"):
        stages(source).fetch(NAMES[1])
