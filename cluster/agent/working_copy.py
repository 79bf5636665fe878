"""The copy of a user's folder that the ranks of a job run in."""

import hashlib
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

from cluster.agent.protocol import COPIED, WORKDIR

CACHES = ("__pycache__", "node_modules")  # folders that are neither copied nor results


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_unchanged(folder: Path) -> None:
    """Remove caches and files that did not change, so that only results are left to download.

    Files are compared by their content: the clock of a new machine may be set back while it runs.
    """
    copy, listed = folder / WORKDIR, folder / COPIED
    try:
        digests = json.loads(listed.read_bytes())
    except FileNotFoundError:
        return
    for name, digest in digests.items():
        path = copy / name
        with suppress(FileNotFoundError):  # removed by the program, or before under another name
            if path.is_file() and not path.is_symlink() and sha256(path) == digest:
                path.unlink()
    for inside, folders, _ in os.walk(copy):
        for name in {*folders} & {*CACHES}:
            shutil.rmtree(Path(inside) / name, ignore_errors=True)
    for inside, _, _ in os.walk(copy, topdown=False):
        with suppress(OSError):  # it has results
            Path(inside).rmdir()
    listed.unlink(missing_ok=True)  # it names the user's files, and is not a result
