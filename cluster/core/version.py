"""The version of this package, and a digest of its sources."""

import os
from functools import cache
from pathlib import Path

__version__ = "0.1.0"
SOURCES = (".py", ".c", ".h", ".toml")


@cache
def revision() -> str:
    """Identify the sources that run, also between two commits."""
    import hashlib  # noqa: PLC0415 - rarely needed, and slow to import

    digest = hashlib.blake2s(digest_size=4)
    root = Path(__file__).parent.parent
    folders = os.walk(root, followlinks=True)  # in a checkout, benchmarks are a link
    paths = (Path(folder, name) for folder, _, names in folders for name in names)
    for path in sorted(path for path in paths if path.suffix in SOURCES):
        digest.update(f"{path.relative_to(root)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def version_of_library(name: str) -> str:
    """Return the version of an installed package; empty without it."""
    from importlib import metadata  # noqa: PLC0415 - slow to import

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
