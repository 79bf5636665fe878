"""Where files of ours are kept, and who may have put them there."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from cluster.core.errors import ClusterError

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_folder() -> Path:
    """Give the folder of what is kept between launches."""
    named = os.environ.get("CLUSTER_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cluster"


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, so that nobody else can look into them.

    Args:
        folder: to make; one that is there stays as it is.

    Raises:
        OSError: it cannot be made.

    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)  # it may be a file


def check_owner(path: Path, choose: str) -> None:
    """Refuse what somebody else may have put there: we act on what we read in it.

    A folder of ours that our group may write is closed to it.

    Args:
        path: of a file or folder; it need not be there.
        choose: the setting that chooses another place, such as `CLUSTER_STATE=DIR`.

    Raises:
        ClusterError: it belongs to somebody else, or all users may write into it.

    """
    try:
        about = path.stat()
    except OSError:
        return
    if about.st_uid != os.geteuid():
        raise ClusterError(
            f"{path} belongs to another user (uid {about.st_uid}, not {os.geteuid()}).",
            means="What is in it decides which programs run, so it is neither read nor written.",
            remedy=f"Choose a place of your own: {choose}",
        )
    if about.st_mode & stat.S_IWOTH:
        raise ClusterError(
            f"All users of this machine may write into {path}.",
            means="What is in it decides which programs run, so it is neither read nor written.",
            remedy=f"Choose a place of your own: {choose}\n"
            f"Or, if you know that all in it is yours: chmod -R go-w {path}",
        )
    if about.st_mode & OTHERS_WRITE:
        with suppress(OSError):
            path.chmod(stat.S_IMODE(about.st_mode) & ~OTHERS_WRITE)
