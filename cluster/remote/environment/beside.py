"""Libraries that a benchmark needs on this machine, in a folder beside our own environment.

Ranks of `--provider local` use our own environment, which nobody asked us to change. The folder is
kept under the cache, one for each set of libraries and Python; a complete one is renamed into
place.
"""

import hashlib
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from cluster.core.errors import SpecError, tail
from cluster.core.extras import install_command
from cluster.core.paths import cache_folder, make_private
from cluster.remote.environment import benchmark_libraries, downloads

TIMEOUT = 1800.0  # seconds; torch alone has hundreds of megabytes
TAIL = 3  # lines of pip's output in an error


def install_beside(
    requirements: Sequence[str],
    extra: str,
    on_download: Callable[[str], None] | None = None,
    *,
    large: bool = True,
) -> Path | None:
    """Install libraries that this Python lacks, and return the folder for `PYTHONPATH`.

    None if this Python has all of them, in whatever version. SpecError: the index lacks one, or
    (LargeDownload) there is more to download than is done unasked, and not `large`.
    """
    missing = tuple(
        sorted(requirement for requirement in requirements if not _is_here(requirement))
    )
    if not missing:
        return None
    words = "\n".join((sys.version, *missing))
    digest = hashlib.blake2s(words.encode(), digest_size=6).hexdigest()
    folder = cache_folder() / "libraries" / digest
    from filelock import FileLock  # noqa: PLC0415 - slow to import

    make_private(folder.parent)
    with FileLock(folder.with_name(f"{digest}.lock")):
        if not folder.exists():
            if not large:
                downloads.check_size((), missing, TIMEOUT)
            with downloads.new_folder(folder) as part:
                argv = ("install", *downloads.QUIETLY, "--target", str(part), *missing)
                result = downloads.run_pip(argv, missing, TIMEOUT, on_download)
                if result.status != 0:
                    raise SpecError(
                        f"The ranks need {', '.join(missing)}, which could not be installed.",
                        means=tail(result.stderr or result.stdout, TAIL),
                        remedy=f"Type: {install_command(extra)}",
                    )
    return folder


def _is_here(requirement: str) -> bool:
    try:
        return all(metadata.version(name) for name in benchmark_libraries.names((requirement,)))
    except metadata.PackageNotFoundError:
        return False
