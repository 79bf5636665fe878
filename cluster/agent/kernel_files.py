"""Small files of the kernel, in /proc and /sys."""

from __future__ import annotations

from pathlib import Path


def read_text(path: Path) -> str:
    """Read a small file, stripped; empty if there is no such file, or it is not text."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
