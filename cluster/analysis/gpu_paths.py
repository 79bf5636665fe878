"""Paths between the GPUs of a host, as `nvidia-smi topo` and `rocm-smi --showtopo` name them."""

from __future__ import annotations

import re

# From slow to fast; NVLinks are faster. AMD's tool says of a path through PCIe no more than that.
CLASSES = ("PCIE", "SYS", "NODE", "PHB", "PXB", "PIX", "XGMI")
OLD = {"SOC": "SYS"}
UNKNOWN = "?"
_NVLINKS = re.compile(r"NV(\d+)")


def speed(path: str) -> tuple[int, int]:
    """Order paths.

    Args:
        path: such as `NV2` or `SYS`.

    Returns:
        More for a faster one; the least for one that nobody knows.

    """
    links = nvlinks(path)
    if links:
        return len(CLASSES) + 1, links
    known = OLD.get(path, path)
    return (CLASSES.index(known) + 1 if known in CLASSES else 0), 0


def nvlinks(path: str) -> int:
    """Count the NVLinks of a path.

    Args:
        path: such as `NV2`.

    Returns:
        How many; 0 if it has none.

    """
    match = _NVLINKS.fullmatch(path)
    return int(match[1]) if match else 0
