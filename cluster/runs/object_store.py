"""Runs in an object store: S3, Google Cloud Storage and Azure with obstore, others with fsspec.

A run has the same layout as on disk: `URL/CLUSTER/ID/run.json` and the files beside it. Its record
is written last, so a run with a record is complete.

Only the blocking functions of obstore are called. Its asynchronous ones, which fsspec would use,
still run for some milliseconds after they return; Python aborts if it exits in that time
(PyO3 #4874).
"""

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from cluster.core.errors import ClusterError, SpecError
from cluster.core.extras import install_command
from cluster.logs.redaction import secret_lines
from cluster.runs import store as runs

NO_LOGIN = re.compile(
    r"get_credentials|Unable to locate credentials|credentials (?:were )?not found"
    r"|169\.254\.169\.254|performing token request|metadata\.google\.internal"
)
LOGIN = {
    "s3": "Type: aws configure; or choose a profile: export AWS_PROFILE=NAME",
    "gs": "Type: gcloud auth application-default login",
    "az": "Type: az login",
}
OBJECT_STORES = ("s3", "gs", "az")
SETTLED = ("done", "failed", "interrupted")
AT_ONCE = 16  # concurrent downloads


class Store(Protocol):
    """A store of runs. Paths are relative to its URL: `CLUSTER/ID/FILE`."""

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, or None if there is none."""

    def write(self, path: str, content: bytes) -> None:
        """Create or replace a file."""

    def records(self) -> list[str]:
        """List the paths where records of runs may be, in any order."""


@dataclass(frozen=True)
class Objects:
    """An object store that obstore supports."""

    store: Any  # obstore has one class per cloud

    def read(self, path: str) -> bytes | None:
        try:
            return bytes(self.store.get(path).bytes())
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:
        self.store.put(path, content)

    def records(self) -> list[str]:
        return [f"{run}/{runs.RECORD}" for name in self._folders() for run in self._folders(name)]

    def _folders(self, path: str | None = None) -> list[str]:
        return [str(prefix) for prefix in self.store.list_with_delimiter(path)["common_prefixes"]]


@dataclass(frozen=True)
class Files:
    """A file system of fsspec."""

    store: Any  # fsspec has no types
    root: str

    def read(self, path: str) -> bytes | None:
        try:
            return bytes(self.store.cat_file(f"{self.root}/{path}"))
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:
        whole = f"{self.root}/{path}"
        self.store.makedirs(whole.rpartition("/")[0], exist_ok=True)
        self.store.pipe_file(whole, content)

    def records(self) -> list[str]:
        paths = self.store.glob(f"{self.root}/*/*/{runs.RECORD}")
        return ["/".join(path.split("/")[-3:]) for path in paths]


def push(folder: Path, url: str) -> str:
    """Copy a run into a store such as `s3://bucket/prefix`, if it has no secret (SpecError)."""
    record = runs.record(folder)
    if record.status not in SETTLED:
        raise SpecError(
            f"{folder.name} is {record.status}: what it becomes is not known yet.",
            remedy=f"First: cluster wait {record.spec.name}; cluster fetch {record.spec.name}",
        )
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    for name, content in contents.items():
        if numbers := secret_lines(content):
            raise SpecError(
                f"{folder / name} seems to hold a secret in line {numbers[0]}; nothing was sent.",
                means="Who can read the store could read it. Keys, tokens and passwords are "
                "recognised by their names and forms.",
                remedy="Take it out, or push another run.",
            )
    place = f"{record.spec.name}/{folder.name}"
    whole = f"{url.rstrip('/')}/{place}"
    with _store(url) as store:
        existing = store.read(f"{place}/{runs.RECORD}")
        if existing not in (None, contents[runs.RECORD]):
            raise SpecError(
                f"Another run is at {whole}.", remedy="Choose another prefix: s3://bucket/OTHER"
            )
        if existing is None:
            last = contents.pop(runs.RECORD)
            for name, content in (*contents.items(), (runs.RECORD, last)):
                store.write(f"{place}/{name}", content)
    return whole


def download_runs(url: str, target: Path, *, values: bool = False) -> tuple[str, ...]:
    """Download the records of all runs in a store; return the URL of each (ClusterError)."""
    with _store(url) as store, ThreadPoolExecutor(AT_ONCE) as pool:
        records = [path for path in store.records() if _is_run(path)]
        contents = dict(zip(records, pool.map(store.read, records), strict=True))
        if values:
            paths = [path.removesuffix(runs.RECORD) + runs.MEASUREMENTS for path in records]
            contents |= zip(paths, pool.map(store.read, paths), strict=True)
    for path, content in contents.items():
        if content is not None:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_bytes(content)
    return tuple(
        f"{url.rstrip('/')}/{folder.parent.name}/{folder.name}" for folder in runs.folders(target)
    )


def _is_run(path: str) -> bool:
    """Check a path from a store: no part of it may lead outside the folder of runs."""
    name, id_, _ = path.split("/")
    return not {name, id_} & {"", ".", ".."}


@contextmanager
def _store(url: str) -> Iterator[Store]:
    """Open a store, and turn its errors into ours."""
    parts = urlsplit(url)
    if not parts.scheme or not (parts.netloc or parts.path.strip("/")):
        raise SpecError(f"{url!r} is no place in a store.", remedy="Such as: s3://bucket/prefix")
    if "@" in parts.netloc:
        raise SpecError(
            "A URL with a password or key in it would end up in shell histories and logs.",
            remedy="Put it where the cloud's own tools look for it, such as ~/.aws/credentials.",
        )
    try:
        yield _open_store(url, parts.scheme)
    except ImportError as error:
        raise SpecError(
            f"{parts.scheme}:// needs {error.name}.", remedy=f"Type: {install_command('stores')}"
        ) from error
    except ClusterError:
        raise
    except Exception as error:  # each store has errors of its own
        if NO_LOGIN.search(str(error)):
            raise ClusterError(
                f"There are no credentials for {parts.scheme}://{parts.netloc} on this machine.",
                means="Nothing was read or written.",
                remedy=LOGIN.get(parts.scheme, "Log in with the tools of the store."),
            ) from error
        raise ClusterError(
            f"{url}: {str(error).partition('Debug source')[0].strip()}",
            remedy="Look at the bucket's name, and whether your credentials may use it.",
        ) from error


def _open_store(url: str, scheme: str) -> Store:
    if scheme not in OBJECT_STORES:
        import fsspec  # noqa: PLC0415 - optional

        store, path = fsspec.core.url_to_fs(url)
        return Files(store, path.rstrip("/"))
    from obstore.store import from_url  # noqa: PLC0415 - optional

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    make: Any = from_url  # its options depend on the store
    options: dict[str, Any] = {"client_options": {"allow_http": endpoint.startswith("http:")}}
    if scheme == "s3":
        from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415 - optional

        options["credential_provider"] = Boto3CredentialProvider()
        options["endpoint"] = endpoint or None
        options = {key: value for key, value in options.items() if value is not None}
    return Objects(make(url.rstrip("/"), **options))
