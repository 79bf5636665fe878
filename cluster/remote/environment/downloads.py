"""What pip would download, and how large that is: asked before, and named while it comes."""

import json
import re
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from cluster.core import plugins
from cluster.core.errors import LargeDownload
from cluster.core.model.hosts import Completed
from cluster.remote.shells import Shell

LARGE = 100e6  # bytes, above which nothing is downloaded without a question
FOR_PROCESSORS = "https://download.pytorch.org/whl/cpu"  # elsewhere torch brings CUDA: gigabytes
HEAD_WITHIN = 10.0  # seconds for a server to tell the size of a file
SIZES_AT_ONCE = 8  # requests
MOST_NAMED = 3  # packages
PIP = (sys.executable, "-P", "-m", "pip")
QUIETLY = ("--no-input", "--disable-pip-version-check", "--only-binary=:all:")
_BEGUN = re.compile(r"\s*Downloading \S*?(?P<name>[\w.]+-[^-/\s]+)-\S+\.whl \((?P<size>[^)]+)\)")


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
        if on_download is not None and (package := begun(line)):
            on_download(package)

    on_line = hear if on_download is not None else None
    tries = (
        shell.run([*PIP, *argv, *more], timeout=timeout, on_line=on_line)
        for more in sources(requirements)
    )
    first = next(tries)
    return first if first.status == 0 else next((t for t in tries if t.status == 0), first)


def begun(line: str) -> str:
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


def check_size(options: Sequence[str], requirements: Sequence[str], timeout: float) -> None:
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
    named = ", ".join(
        f"{PurePosixPath(url).name.partition('-')[0]} {_megabytes(sizes[url])}" for url in largest
    )
    more = f" and {len(urls) - len(largest)} more" if len(urls) > len(largest) else ""
    raise LargeDownload(
        f"The ranks need Python libraries, of which {_megabytes(total)} would be "
        "downloaded; nothing was.",
        means=f"They are: {named}{more}.",
        remedy="To download them, add --yes",
    )


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB"


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
