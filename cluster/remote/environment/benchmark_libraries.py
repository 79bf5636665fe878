"""Libraries that a benchmark needs, such as torch.

On hosts, a folder inside the environment: benchmarks need different ones, so they have no line in
the marker; the folder's name says which are in it, and it goes when the environment is made again.
On this machine, a folder in the cache for each set of libraries and Python: nobody asked us to
change our own environment, which ranks of `--provider local` use.
"""

import hashlib
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from cluster.core.errors import SpecError, tail
from cluster.core.extras import install_command
from cluster.core.state.files import cache_folder, load_script, make_private
from cluster.remote.environment import wheels

FOLDER = "env/libraries"  # in the machine's folder
_NAME = re.compile(r"[\w.-]+")


INSTALL = load_script(__file__, "install_libraries.sh")

# What pip would have put beside the environment's Python: the folder's own program lacks its path.
TORCHRUN = load_script(__file__, "torchrun.sh")
TIMEOUT = 1800.0  # seconds; torch alone has hundreds of megabytes
TAIL = 3  # lines of pip's output in an error


def names(libraries: Sequence[str]) -> tuple[str, ...]:
    return tuple(match[0] for library in libraries if (match := _NAME.match(library)))


def folder(libraries: Sequence[str]) -> str:
    """Return the folder of libraries in the machine's folder; empty without libraries."""
    if not libraries:
        return ""
    words = "\n".join(sorted(libraries)).encode()
    return f"{FOLDER}/{hashlib.blake2s(words, digest_size=6).hexdigest()}"


def script(libraries: Sequence[str], requirements: Sequence[str]) -> str:
    """Return the script that installs them, with what they need, from the wheels sent along."""
    other = wheels.sources(requirements)[1:]
    torchrun = TORCHRUN.format(name=folder(libraries).rpartition("/")[2])
    return INSTALL.format(
        folder=folder(libraries),
        torchrun=shlex.quote(torchrun.rstrip()),
        retries=wheels.RETRIES,
        requirements=" ".join(map(shlex.quote, requirements)),
        otherwise="".join(
            f' || {{ [ -z "$from" ] && get {shlex.join(source)}; }}' for source in other
        ),
    )


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
    missing = tuple(sorted(r for r in requirements if not _is_here(r)))
    if not missing:
        return None
    words = "\n".join((sys.version, *missing))
    digest = hashlib.blake2s(words.encode(), digest_size=6).hexdigest()
    place = cache_folder() / "libraries" / digest
    from filelock import FileLock  # noqa: PLC0415 - slow to import

    make_private(place.parent)
    with FileLock(place.with_name(f"{digest}.lock")):
        if not place.exists():
            if not large:
                wheels.check_download((), missing, TIMEOUT)
            with wheels.new_folder(place) as part:
                argv = ("install", *wheels.QUIETLY, "--target", str(part), *missing)
                result = wheels.run_pip(argv, missing, TIMEOUT, on_download)
                if result.status != 0:
                    raise SpecError(
                        f"The ranks need {', '.join(missing)}, which could not be installed.",
                        means=tail(result.stderr or result.stdout, TAIL),
                        remedy=f"Type: {install_command(extra)}",
                    )
    return place


def _is_here(requirement: str) -> bool:
    try:
        return all(metadata.version(name) for name in names((requirement,)))
    except metadata.PackageNotFoundError:
        return False
