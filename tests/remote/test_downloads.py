"""What is large is not downloaded unasked: a package index over HTTP, and pip itself."""

import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cluster.core.errors import LargeDownload
from cluster.remote.environment import benchmark_libraries, wheels
from tests.remote.test_environment import WHEEL_FILE
from tests.snapshots import Snapshot

WHEEL = "/toy-1.0-py3-none-any.whl"
ABOUT = b"Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n"
PAGE = f'<a href="{WHEEL}" data-core-metadata="true">{WHEEL[1:]}</a>'.encode()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the paths that pip has got from an index whose only wheel is said to have 150 MB."""
    with zipfile.ZipFile(tmp_path / "toy.whl", "w") as archive:
        archive.writestr("toy-1.0.dist-info/METADATA", ABOUT)
        archive.writestr("toy-1.0.dist-info/WHEEL", WHEEL_FILE)
        archive.writestr("toy-1.0.dist-info/RECORD", "")
    files = {
        "/simple/toy/": PAGE,
        f"{WHEEL}.metadata": ABOUT,
        WHEEL: (tmp_path / "toy.whl").read_bytes(),
    }
    paths: list[str] = []

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.answer(len(files[self.path]))
            self.wfile.write(files[self.path])

        def do_HEAD(self) -> None:
            self.answer(150_000_000)

        def answer(self, size: int) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(size))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    monkeypatch.setenv("CLUSTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "pip"))
    try:
        yield paths
    finally:
        server.shutdown()
        server.server_close()


def here(on_download: Callable[[str], None], *, large: bool) -> None:
    benchmark_libraries.install_beside(("toy==1.0",), "training", on_download, large=large)


def for_hosts(on_download: Callable[[str], None], *, large: bool) -> None:
    target = wheels.Target(python="3.11", abi="cp311", arch="x86_64", glibc="2.36")
    wheels.fetch(
        target, ("toy==1.0",), with_dependencies=True, large=large, on_download=on_download
    )


@pytest.mark.parametrize("download", [here, for_hosts])
def test_more_than_100_mb_are_downloaded_only_after_a_yes_and_are_named(
    snapshot: Snapshot, download: Callable[..., None], index: list[str]
) -> None:
    names: list[str] = []
    with snapshot.raises(LargeDownload):
        download(names.append, large=False)
    assert WHEEL not in index

    download(names.append, large=True)

    assert WHEEL in index
    assert [name.partition(" (")[0] for name in names] == ["downloading toy 1.0"]
