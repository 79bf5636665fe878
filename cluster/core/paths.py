"""The folders of state and cache, and checks of who owns them."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from cluster.core.errors import ClusterError

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_folder() -> Path:
    """Return the cache folder, whose files are kept between launches."""
    if named := os.environ.get("CLUSTER_CACHE"):
        return Path(named)
    import platformdirs  # noqa: PLC0415 - slow to import

    return platformdirs.user_cache_path("cluster")


def state_folder() -> Path:
    """Return the state folder, in which each cluster has its journal."""
    if named := os.environ.get("CLUSTER_STATE"):
        return Path(named)
    import platformdirs  # noqa: PLC0415 - see above

    return platformdirs.user_state_path("cluster")


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents, readable by their owner only."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)  # an error if it is a file


def check_owner(path: Path, choose: str) -> None:
    """Refuse a path that another user may have written (ClusterError): it decides what runs.

    The group's permission to write is removed from a folder of the caller. `choose` is the setting
    for another place, such as `CLUSTER_STATE=DIR`.
    """
    try:
        about = path.stat()
    except OSError:
        return
    if about.st_uid != os.geteuid():
        raise ClusterError(
            f"{path} belongs to another user (uid {about.st_uid}, not {os.geteuid()}).",
            means="Its contents decide which programs run, so it is neither read nor written.",
            remedy=f"Choose a folder of your own: {choose}",
        )
    if about.st_mode & stat.S_IWOTH:
        raise ClusterError(
            f"All users of this machine may write into {path}.",
            means="Its contents decide which programs run, so it is neither read nor written.",
            remedy=f"Choose a folder of your own: {choose}\n"
            f"Or, if you know that everything in it is yours: chmod -R go-w {path}",
        )
    if about.st_mode & OTHERS_WRITE:
        with suppress(OSError):
            path.chmod(stat.S_IMODE(about.st_mode) & ~OTHERS_WRITE)
