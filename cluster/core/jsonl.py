"""Append-only files of JSON lines, whose last line a crash may have cut off."""

import os
from pathlib import Path

CHUNK = 1 << 16  # bytes read at a time, from the end backwards


def append(path: Path, text: bytes, *, sync: bool = False) -> None:
    """Add whole lines to a file, whose folder exists, in place of a last one that was cut off."""
    with path.open("a+b") as file:
        start = end = file.seek(0, os.SEEK_END)
        last = b""  # the end of the file, with the last whole line
        while start > 0 and b"\n" not in last:
            start = max(0, start - CHUNK)
            file.seek(start)
            last = file.read(end - start)
        keep = start + last.rfind(b"\n") + 1
        if keep < end:
            file.truncate(keep)
        file.write(text)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def complete_lines(text: bytes) -> list[bytes]:
    """Return the lines of a file without newlines; a last one that was cut off is left out."""
    return text[: text.rfind(b"\n") + 1].splitlines()
