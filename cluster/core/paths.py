"""Where files of ours are kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Give the folder of what is kept between launches."""
    named = os.environ.get("CLUSTER_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cluster"
